import { setTimeout as sleep } from 'node:timers/promises';
import type { ScriptError } from '../../protocol.ts';
import { namingBrowserFailure } from '../network.ts';
import { resources, type UserCode } from '../user-code/index.ts';
import type { PlaywrightHooks } from './hooks.ts';
import type { Ended } from './test-run.ts';

/** A script is at its end when nothing of it was under way in looks this far apart. */
const LOOK_MS = 5;
const LOOKS = 3;
/** A browser that a script leaves open is no work. */
const OF_BROWSERS = new Set(['ProcessWrap', 'PipeWrap', 'MessagePort', 'Worker']);

/** A Playwright script without a test runner: the file itself, from its first line to the last thing it awaits. */
export class PlainRun {
  readonly #hooks: PlaywrightHooks;
  readonly #code: UserCode;

  constructor(hooks: PlaywrightHooks, code: UserCode) {
    this.#hooks = hooks;
    this.#code = code;
  }

  /** @param entry undefined where the file was run already and only its end is awaited */
  async run(entry: string | undefined): Promise<Ended> {
    const { promise: thrown, reject } = Promise.withResolvers<never>();
    this.#code.onUncaught = reject;
    try {
      await Promise.race([this.#carryOut(entry), thrown]);
      const { exitCode = 0 } = process;
      if (Number(exitCode) === 0) return { verdict: 'passed', errors: [] };
      return { verdict: 'failed', errors: [{ message: `the script set process.exitCode to ${exitCode}` }] };
    } catch (error) {
      const { message, ...rest } = this.#code.errors.explain(error, 'script');
      return { verdict: 'failed', errors: [{ ...rest, message: namingBrowserFailure(message) }] };
    } finally {
      this.#code.onUncaught = undefined;
    }
  }

  /** What it was waiting for when its time was up. */
  get lastError(): ScriptError[] {
    const call = this.#hooks.lastCall;
    if (call === undefined) return [];
    const frame = call.frames?.find(({ file }) => this.#code.files.isShown(file));
    const place = frame && { file: frame.file, line: frame.line, column: frame.column };
    return [
      { message: `the time was up during ${call.apiName || call.title || 'a call of Playwright'}`, ...place },
    ];
  }

  /** `run()` without await at the end of a file is common, so the end of the file is not the script's. */
  async #carryOut(entry: string | undefined): Promise<void> {
    const before = work();
    if (entry !== undefined) await this.#code.modules.run(entry);
    for (let quiet = 0; quiet < LOOKS; quiet++) {
      await sleep(LOOK_MS, undefined, { ref: false });
      if (this.#hooks.calls > 0 || work() > before) quiet = -1;
    }
  }
}

/** What keeps this process alive, browsers apart. */
function work(): number {
  let count = 0;
  for (const [kind, number] of resources()) if (!OF_BROWSERS.has(kind)) count += number;
  return count;
}
