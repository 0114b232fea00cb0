import type { FromScript, LeftFile } from '../../protocol.ts';

/** Often enough for what is left of a run that is ended from outside, seldom enough to cost nothing. */
const EVERY_MS = 500;

/** Tells the agent what was found so far, whenever something was added, at most twice a second. */
export class FindingsSender {
  readonly #send: (message: FromScript) => void;
  readonly #collect: (isFinal: boolean) => { detail: Record<string, unknown>; files: LeftFile[] };
  #timer: NodeJS.Timeout | undefined;

  constructor(
    send: (message: FromScript) => void,
    collect: (isFinal: boolean) => { detail: Record<string, unknown>; files: LeftFile[] },
  ) {
    this.#send = send;
    this.#collect = collect;
  }

  changed(): void {
    this.#timer ??= setTimeout(() => this.#now(false), EVERY_MS).unref();
  }

  finish(): void {
    this.#now(true);
  }

  #now(isFinal: boolean): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#send({ t: 'findings', ...this.#collect(isFinal) });
  }
}
