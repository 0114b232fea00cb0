import type { TryReport } from '../../checks/execute.ts';
import type { PhaseQuestion, ScriptHooks } from '../../checks/script-hooks.ts';
import type { Job } from '../../contract/index.ts';
import { messageOf } from '../../kit/errors.ts';
import { ExecutorFault } from '../ports.ts';
import { startChild, type Child, type ChildExit, type ChildProgram } from '../sandbox/index.ts';
import { BEAT_MS, openChannel, type FromProbe, type ProbeSetup, type ToProbe } from './channel.ts';

/** A probe may be silent for this many beats; then one try blocks its event loop for good. */
const SILENT_BEATS = 10;
/** A cold start on a busy machine with one slow core. */
const START_BEATS = 60;

export type TryEnd =
  | { kind: 'report'; report: TryReport }
  | { kind: 'fault'; code: string; message: string }
  /** The process ended with the try in it. */
  | { kind: 'crashed'; cause: string };

/** One probe process as the agent sees it. */
export class Probe {
  /** Resolves when it can take tries; false when it ended before. */
  readonly started: Promise<boolean>;
  readonly ended: Promise<ChildExit['cause'] | 'hung'>;
  state: 'starting' | 'ready' | 'leaving' | 'ended' = 'starting';
  /** Resident memory by its last beat. */
  rssBytes = 0;
  /** Asked to leave: its end is not a fault. */
  leaving = false;
  /** Tries given to it so far. */
  taken = 0;
  readonly #child: Child;
  readonly #send: (message: ToProbe) => void;
  readonly #tries = new Map<number, { settle: (end: TryEnd) => void; scripts: ScriptHooks | undefined }>();
  readonly #beats: NodeJS.Timeout;
  readonly #silenceAllowed: number;
  #silentBeats = 0;
  #hung = false;

  constructor(program: ChildProgram, setup: ProbeSetup, silentBeats = SILENT_BEATS) {
    this.#silenceAllowed = silentBeats;
    this.#child = startChild(program);
    const ready = Promise.withResolvers<boolean>();
    this.#send = openChannel<ToProbe, FromProbe>(
      this.#child.channel,
      (message) => this.#receive(message, ready.resolve),
      () => this.#child.kill(),
    );
    this.started = ready.promise;
    this.#beats = setInterval(() => this.#countBeat(), BEAT_MS);
    this.ended = this.#child.exited.then((exit) => {
      ready.resolve(false);
      return this.#end(exit);
    });
    this.#send({ t: 'setup', setup });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  /** Tries under way. */
  get load(): number {
    return this.#tries.size;
  }
  /** What it printed before it was ready. A probe that had tries may have printed what a target sent. */
  get startErrors(): string {
    return this.taken === 0 ? this.#child.lastWords().trim() : '';
  }

  /** Runs one try. Settles with its end whatever happens to the process. */
  run(job: Job, scripts?: ScriptHooks): { end: Promise<TryEnd>; cancel: () => void } {
    const n = ++this.taken;
    const { promise, resolve } = Promise.withResolvers<TryEnd>();
    this.#tries.set(n, { settle: resolve, scripts });
    this.#send({ t: 'run', n, job, asks: scripts !== undefined });
    return { end: promise, cancel: () => this.#send({ t: 'cancel', n }) };
  }

  /** Takes no more tries; those under way go on. */
  leave(): void {
    if (this.state !== 'ended') this.state = 'leaving';
    this.leaving = true;
  }

  kill(): void {
    this.#child.kill();
  }

  #receive(message: FromProbe, ready: (ok: boolean) => void): void {
    this.#silentBeats = 0;
    switch (message.t) {
      case 'ready':
        this.state = 'ready';
        ready(true);
        break;
      case 'beat':
        this.rssBytes = message.rssBytes;
        break;
      case 'done':
        this.#settle(message.n, { kind: 'report', report: message.report });
        break;
      case 'fault':
        this.#settle(message.n, { kind: 'fault', code: message.code, message: message.message });
        break;
      case 'ask':
        void this.#answer(message.n, message.question);
        break;
    }
  }

  #settle(n: number, end: TryEnd): void {
    this.#tries.get(n)?.settle(end);
    this.#tries.delete(n);
  }

  async #answer(n: number, question: PhaseQuestion): Promise<void> {
    const scripts = this.#tries.get(n)?.scripts;
    if (scripts === undefined) return;
    const answer = await scripts.run(question).catch((error: unknown) => ({ fault: faultOf(error) }));
    if (this.#tries.has(n)) this.#send({ t: 'answer', n, answer });
  }

  /** Counts turns of our own timer, not time: an agent that was frozen finds no probe guilty. */
  #countBeat(): void {
    this.#silentBeats++;
    if (this.#silentBeats <= (this.state === 'starting' ? START_BEATS : this.#silenceAllowed)) return;
    this.#hung = true;
    this.#child.kill();
  }

  #end(exit: ChildExit): ChildExit['cause'] | 'hung' {
    clearInterval(this.#beats);
    this.state = 'ended';
    const cause = this.#hung ? 'hung' : exit.cause;
    for (const { settle } of this.#tries.values()) settle({ kind: 'crashed', cause });
    this.#tries.clear();
    return cause;
  }
}

function faultOf(error: unknown): { code: string; message: string } {
  if (error instanceof ExecutorFault) return { code: error.code, message: error.message };
  return { code: 'SCRIPT_FAULT', message: `the scripts of the check could not be run: ${messageOf(error)}` };
}
