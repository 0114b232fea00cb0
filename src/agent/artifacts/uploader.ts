import { backoffMs, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { SpooledFile } from '../spool/index.ts';
import { KeyRefused, NeverTaken, TryLater, Upload, type ArtifactTarget } from './upload.ts';

const MAX_BACKOFF_MS = 30_000;
/** At the end of the agent nobody waits longer, about ten seconds, for a service that takes nothing. */
const MAX_FLUSH_FAILURES = 4;

/** The spool as the uploader sees it. */
export interface FileSource {
  /** What may be sent, the most wanted first. */
  dueFiles(): Iterable<SpooledFile>;
  settleFile(file: SpooledFile): void;
  /** @returns stops that */
  onChange(listener: () => void): () => void;
}

/**
 * Sends the files of acknowledged results, one after the other, until the service has them. What is
 * under way when the agent ends goes on after the next start: the service says which parts it has.
 */
export class ArtifactUploader {
  readonly #source: FileSource;
  readonly #target: ArtifactTarget;
  readonly #log: Log;
  /** How often each file was tried in vain: one that fails for ever must not hold up the others. */
  readonly #tries = new Map<string, number>();
  #failures = 0;
  #wake = Promise.withResolvers<void>();
  /** The key was refused: nothing is sent until a connection is welcomed again. */
  #isRefused = false;
  #hurry = false;

  constructor(source: FileSource, target: ArtifactTarget, log: Log) {
    this.#source = source;
    this.#target = target;
    this.#log = log;
  }

  /** Uploads until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const unsubscribe = this.#source.onChange(() => this.#wake.resolve());
    try {
      while (!signal.aborted) await this.#turn(signal);
    } finally {
      unsubscribe();
    }
  }

  /** The service accepts the key (again). */
  welcomed(): void {
    this.#isRefused = false;
    this.#failures = 0;
    this.#wake.resolve();
  }

  /** Resolves when every file is sent, nothing can be sent, or `signal` aborts; for the end of the agent. */
  async flush(signal: AbortSignal): Promise<void> {
    this.#hurry = true;
    this.#failures = 0;
    this.#wake.resolve();
    while (this.#next() !== undefined && !this.#isHopeless() && !signal.aborted) {
      await sleep(20, signal).catch(() => {});
    }
  }

  #isHopeless(): boolean {
    return this.#isRefused || this.#failures >= MAX_FLUSH_FAILURES;
  }

  async #turn(signal: AbortSignal): Promise<void> {
    this.#wake = Promise.withResolvers();
    const file = this.#isRefused ? undefined : this.#next();
    if (file === undefined) {
      await this.#pause(Infinity, signal);
      return;
    }
    try {
      await new Upload(file, this.#target).run(signal);
      this.#failures = 0;
      this.#settle(file);
    } catch (error) {
      if (signal.aborted) return;
      await this.#handle(error, file, signal);
    }
  }

  /** The due file with the fewest tries. */
  #next(): SpooledFile | undefined {
    let best: SpooledFile | undefined;
    for (const file of this.#source.dueFiles()) {
      if (best === undefined || this.#triesOf(file) < this.#triesOf(best)) best = file;
    }
    return best;
  }

  #triesOf({ path }: SpooledFile): number {
    return this.#tries.get(path) ?? 0;
  }

  #settle(file: SpooledFile): void {
    this.#tries.delete(file.path);
    this.#source.settleFile(file);
  }

  async #handle(error: unknown, file: SpooledFile, signal: AbortSignal): Promise<void> {
    const { resultId, name, size } = file;
    const detail = messageOf(error);
    if (error instanceof NeverTaken) {
      this.#log.warn({ resultId, name, size, detail }, 'a file of a result is not sent');
      this.#settle(file);
    } else if (error instanceof KeyRefused) {
      this.#log.error({ detail }, 'the service refuses the key; files are kept');
      this.#isRefused = true;
    } else {
      this.#tries.set(file.path, this.#triesOf(file) + 1);
      if (this.#failures++ === 0) this.#log.warn({ resultId, name, detail }, 'files wait for the service');
      const asked = error instanceof TryLater ? error.afterMs : undefined;
      await this.#pause(asked ?? Math.max(50, backoffMs(this.#failures, 1000, MAX_BACKOFF_MS)), signal, true);
    }
  }

  /** Ends early when something changed, unless the service or the network asked for the pause. */
  async #pause(ms: number, signal: AbortSignal, whole = false): Promise<void> {
    const stop = new AbortController();
    const timer = sleep(Math.min(ms, MAX_BACKOFF_MS), AbortSignal.any([signal, stop.signal])).catch(() => {});
    await (whole && !this.#hurry ? timer : Promise.race([timer, this.#wake.promise]));
    stop.abort();
  }
}
