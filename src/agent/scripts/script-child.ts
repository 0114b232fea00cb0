import { join } from 'node:path';
import { sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { OpenGate } from '../egress/index.ts';
import { LineReader } from '../lines.ts';
import type { Runtime } from '../runtimes/index.ts';
import {
  removeFolder,
  startChild,
  type Child,
  type ChildExit,
  type ChildProgram,
  type Scheduling,
} from '../sandbox/index.ts';
import { writeUserFiles, type UserFile } from './job-folder.ts';
import { readScriptMessage } from './messages.ts';
import type { ScriptKind } from './program.ts';
import type { FromScript, LogLevel, ToScript, WarmUp } from './protocol.ts';
import { startErrorIn } from './start-error.ts';

/** One message: the findings of a long run at most. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;
/** Of all messages of one job. The child counts what it sends; user code that writes there itself does not. */
const MAX_CHANNEL_BYTES = 64 * 1024 * 1024;
/** A cold start on a busy machine with one slow core. */
const START_MS = 60_000;
/** What a process said last is read within this time of its end, unless what it started keeps its channel. */
const LAST_WORDS_MS = 300;

/** How a process ended before it was told to. */
export type EarlyEnd =
  | { how: 'exited'; exit: ChildExit }
  | { how: 'exceeded'; what: Awaited<Child['exceeded']> }
  /** It sent what is no message. */
  | { how: 'broken'; why: string };

export interface Listener {
  message(message: FromScript): void;
  print(level: LogLevel, chunk: Buffer): void;
}

/** A process for one job with its folder, from its warm-up until nothing of it is left. */
export class ScriptChild {
  readonly kind: ScriptKind;
  readonly runtime: Runtime;
  readonly folder: string;
  /** Its way to targets; null where it goes there directly. */
  readonly gate: OpenGate | null;
  /** Resolves when a job would begin at once; false when it ended before. */
  readonly ready: Promise<boolean>;
  readonly ended: Promise<EarlyEnd>;
  readonly #child: Child;
  readonly #broken = Promise.withResolvers<EarlyEnd>();
  readonly #lines = new LineReader(MAX_LINE_CHARS);
  #listener: Listener | undefined;
  #bytes = 0;
  #gone: Promise<void> | undefined;

  constructor(
    kind: ScriptKind,
    runtime: Runtime,
    program: ChildProgram,
    gate: OpenGate | null,
    warmUp: WarmUp,
  ) {
    this.kind = kind;
    this.runtime = runtime;
    this.folder = warmUp.folder;
    this.gate = gate;
    this.#child = startChild(program);
    const ready = Promise.withResolvers<boolean>();
    this.#read(() => ready.resolve(true));
    this.ended = this.#untilEnd();
    const timer = setTimeout(() => ready.resolve(false), START_MS);
    void this.ended.then(() => ready.resolve(false));
    this.ready = ready.promise.finally(() => clearTimeout(timer));
    const full = this.#child.may.includes('unix-sockets');
    this.send({ ...warmUp, browser: warmUp.browser === null ? null : { ...warmUp.browser, full } });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  /** Memory of all its processes now. */
  get memoryBytes(): number {
    return this.#child.usage().memoryBytes;
  }

  /** What it got of the processors until now. */
  scheduling(): Scheduling {
    return this.#child.scheduling();
  }

  /** Why it did not become ready. To be asked only before it got a job: user code may print anything. */
  startError(): string {
    return startErrorIn(this.#child.lastWords());
  }

  /** From now on everything it says and prints goes there; what it printed before is of nobody. */
  listen(listener: Listener): void {
    this.#listener = listener;
  }

  send(message: ToScript): void {
    const { channel } = this.#child;
    if (channel.writable) channel.write(`${JSON.stringify(message)}\n`);
  }

  /** Writes the user's files into its folder. To be called before any of them runs. */
  async writeFiles(files: readonly UserFile[]): Promise<void> {
    await writeUserFiles(this.folder, files);
    this.#child.give(join(this.folder, 'src'));
  }

  /** Ends every process of it. Its files are at rest afterwards. */
  end(): Promise<void> {
    return this.#child.end();
  }

  /** Ends it and removes its folder. Never rejects but for a process that cannot be killed. */
  discard(): Promise<void> {
    this.#gone ??= this.end()
      .finally(() => this.gate?.close())
      .then(() => removeFolder(this.folder));
    return this.#gone;
  }

  #read(onReady: () => void): void {
    const { channel, stdout, stderr } = this.#child;
    channel.on('data', (bytes: Buffer) => {
      try {
        this.#bytes += bytes.length;
        if (this.#bytes > MAX_CHANNEL_BYTES) throw new RangeError('more than 64 MB of messages');
        for (const line of this.#lines.push(bytes)) this.#receive(readScriptMessage(line), onReady);
      } catch (error) {
        channel.destroy();
        const why = error instanceof RangeError ? messageOf(error) : 'a line that is no message';
        this.#broken.resolve({ how: 'broken', why });
      }
    });
    stdout?.on('data', (chunk: Buffer) => this.#listener?.print('info', chunk));
    stderr.on('data', (chunk: Buffer | string) => this.#listener?.print('error', Buffer.from(chunk)));
  }

  #receive(message: FromScript, onReady: () => void): void {
    if (message.t === 'ready') onReady();
    else this.#listener?.message(message);
  }

  async #untilEnd(): Promise<EarlyEnd> {
    const { exited, exceeded, channel } = this.#child;
    const closed = new Promise<void>((resolve) => channel.once('close', resolve));
    const exit = exited.then(async (found): Promise<EarlyEnd> => {
      await Promise.race([closed, sleep(LAST_WORDS_MS)]);
      return { how: 'exited', exit: found };
    });
    return Promise.race([
      exceeded.then((what): EarlyEnd => ({ how: 'exceeded', what })),
      this.#broken.promise,
      exit,
    ]);
  }
}
