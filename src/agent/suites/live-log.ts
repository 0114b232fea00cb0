import { StringDecoder } from 'node:string_decoder';
import { MAX_LOG_BYTES, type Job } from '../../contract/index.ts';
import type { Scrubber } from '../scrub/index.ts';
import { shownText } from './words.ts';

/** Sends what a suite prints. */
export type PostLogText = (body: Buffer, signal: AbortSignal) => Promise<{ status: number }>;

const EVERY_MS = 1000;
/** JSON may need more than the text. */
const MAX_TEXT_CHARS = MAX_LOG_BYTES / 2;
const POST_MS = 10_000;

/**
 * The log of one suite for somebody who reads along: scrubbed as it comes, at most once a second, and without
 * what is too much. Nothing waits for it.
 */
export class LiveLog {
  readonly #job: Job;
  readonly #post: PostLogText;
  readonly #scrubber: Scrubber;
  #pass: ReturnType<Scrubber['pass']>;
  readonly #timer: NodeJS.Timeout;
  readonly #stopped = new AbortController();
  /** Chunks end anywhere, in characters too. */
  readonly #decoder = new StringDecoder('utf8');
  #text = '';
  #droppedChars = 0;
  /** Nothing was printed since the last look. */
  #isQuiet = false;
  #sending: Promise<void> | undefined;

  constructor(job: Job, scrubber: Scrubber, post: PostLogText) {
    this.#job = job;
    this.#post = post;
    this.#scrubber = scrubber;
    this.#pass = scrubber.pass();
    this.#timer = setInterval(() => this.#tick(), EVERY_MS);
  }

  print(chunk: Buffer): void {
    this.#isQuiet = false;
    this.#add(this.#decoder.write(this.#pass.push(chunk)));
  }

  /** Sends the rest. Nobody waits for a service that does not answer. */
  async end(): Promise<void> {
    clearInterval(this.#timer);
    this.#add(this.#decoder.end(this.#pass.end()));
    await this.#sending;
    await this.#send();
    this.#stopped.abort();
  }

  /** A pass keeps the end of a text, which may be the beginning of a secret, until it knows better. */
  #tick(): void {
    if (this.#isQuiet) {
      this.#add(this.#pass.end().toString());
      this.#pass = this.#scrubber.pass();
    }
    this.#isQuiet = true;
    void this.#send();
  }

  #add(text: string): void {
    const room = Math.max(0, MAX_TEXT_CHARS - this.#text.length);
    this.#text += text.slice(0, room);
    this.#droppedChars += Math.max(0, text.length - room);
  }

  #send(): Promise<void> {
    this.#sending ??= this.#sendOnce().finally(() => (this.#sending = undefined));
    return this.#sending;
  }

  async #sendOnce(): Promise<void> {
    if (this.#text === '') return;
    const dropped = this.#droppedChars > 0 ? `\n… ${this.#droppedChars} more characters\n` : '';
    const text = shownText(this.#text) + dropped;
    this.#text = '';
    this.#droppedChars = 0;
    const { runId, token } = this.#job;
    const signal = AbortSignal.any([this.#stopped.signal, AbortSignal.timeout(POST_MS)]);
    const body = Buffer.from(JSON.stringify({ runId, token, text }));
    const { status } = await this.#post(body, signal).catch(() => ({ status: 0 }));
    if (status >= 400 && status < 500) clearInterval(this.#timer);
  }
}
