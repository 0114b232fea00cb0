import { Console } from 'node:console';
import { Writable } from 'node:stream';
import type { LogLevel } from '../../protocol.ts';

/** Of one job. Whoever prints more learns how much was left out. */
const MAX_CHARS = 1_000_000;
const MAX_LINES = 20_000;
const MAX_LINE_CHARS = 20_000;

/** What goes elsewhere than to `info`, or to `error` where Node writes it to stderr. */
const LEVELS: Readonly<Record<string, LogLevel>> = {
  debug: 'debug',
  trace: 'debug',
  warn: 'warn',
  assert: 'error',
};

/** The console of user code: each call is a line of the job's log, up to a limit. */
export class Printer {
  readonly #write: (level: LogLevel, text: string) => void;
  #level: LogLevel | undefined;
  #chars = 0;
  #lines = 0;
  #left = { lines: 0, chars: 0 };

  constructor(write: (level: LogLevel, text: string) => void) {
    this.#write = write;
  }

  install(): void {
    const own = new Console({
      stdout: this.#stream('info'),
      stderr: this.#stream('error'),
      colorMode: false,
    });
    for (const [name, method] of Object.entries(own)) {
      if (typeof method !== 'function') continue;
      const print = method as (...values: unknown[]) => unknown;
      const leveled = (...values: unknown[]): unknown => {
        this.#level = LEVELS[name];
        try {
          return print(...values);
        } finally {
          this.#level = undefined;
        }
      };
      Object.defineProperty(console, name, { value: leveled, writable: true, configurable: true });
    }
  }

  say(level: LogLevel, text: string): void {
    if (this.#chars + text.length > MAX_CHARS || this.#lines >= MAX_LINES) {
      this.#left.lines++;
      this.#left.chars += text.length;
      return;
    }
    this.#lines++;
    const more = text.length - MAX_LINE_CHARS;
    const shown = more <= 0 ? text : `${text.slice(0, MAX_LINE_CHARS)}… (${more} more characters)`;
    this.#chars += shown.length;
    this.#write(level, shown);
  }

  /** Says what was left out since it was asked last. */
  settle(): void {
    const { lines, chars } = this.#left;
    if (lines > 0) this.#write('warn', `${lines} more lines with ${chars} characters were left out`);
    this.#left = { lines: 0, chars: 0 };
  }

  #stream(usual: LogLevel): Writable {
    return new Writable({
      decodeStrings: false,
      write: (chunk, _encoding, done) => {
        this.say(this.#level ?? usual, String(chunk).replace(/\n$/, ''));
        done();
      },
    });
  }
}
