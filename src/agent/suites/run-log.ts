import type { Job } from '../../contract/index.ts';
import { JobLog } from '../scripts/index.ts';
import type { Scrubber } from '../scrub/index.ts';
import { LiveLog, type PostLogText } from './live-log.ts';
import { lastLines } from './words.ts';

/** Of one command: what its last error is found in. */
const TAIL_CHARS = 20_000;
const LAST_LINES = 12;

interface RunLogOptions {
  job: Job;
  scrubber: Scrubber;
  /** Makes a text of the machine one for a reader. */
  words: (text: string) => string;
  /** Where somebody reads along; undefined when nobody does. */
  post: PostLogText | undefined;
}

/** What a run prints and what is said about it: for its result, for who reads along, and for its errors. */
export class RunLog {
  readonly #kept = new JobLog();
  readonly #live: LiveLog | undefined;
  readonly #scrubber: Scrubber;
  readonly #words: (text: string) => string;
  #tail = '';
  #bytes = 0;

  constructor({ job, scrubber, words, post }: RunLogOptions) {
    this.#scrubber = scrubber;
    this.#words = words;
    if (post !== undefined) this.#live = new LiveLog(job, scrubber, post);
  }

  print(level: 'info' | 'error', chunk: Buffer): void {
    this.#tail = (this.#tail + chunk.toString()).slice(-TAIL_CHARS);
    this.#bytes += chunk.length;
    this.#kept.print(level, chunk);
    this.#live?.print(chunk);
  }

  /** To both readers, in a line of its own. */
  say(level: 'info' | 'warn' | 'error', text: string): void {
    this.note(level, text);
    this.#live?.print(Buffer.from(`${text}\n`));
  }

  /** In the result only: nobody reads along any more. */
  note(level: 'warn' | 'error' | 'info', text: string): void {
    this.#kept.add(level, text);
  }

  /** What is printed from here on is another command's. */
  turnPage(): void {
    this.#tail = '';
  }

  /** By all commands together. */
  get printedBytes(): number {
    return this.#bytes;
  }

  /** The end of what the present command printed. */
  get printed(): string {
    return this.#words(this.#tail);
  }

  /** The same as a part of a sentence. */
  get lastWords(): string {
    return lastLines(this.printed, LAST_LINES) || 'it printed nothing';
  }

  /** Sends the rest to who reads along. */
  async endLive(): Promise<void> {
    await this.#live?.end();
  }

  /** For the result. */
  lines(): ReturnType<JobLog['take']> {
    return this.#kept.take(this.#scrubber).map((line) => ({ ...line, msg: this.#words(line.msg) }));
  }
}
