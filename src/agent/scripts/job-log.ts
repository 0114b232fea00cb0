import type { ScriptLogLine } from '../../checks/script-hooks.ts';
import { wallMs } from '../../kit/clock.ts';
import type { Scrubber } from '../scrub/index.ts';
import type { LogLevel } from './protocol.ts';

interface Entry {
  time: number;
  level: LogLevel;
  text: string;
  /** Printed by the process itself: pieces of any size, cut into lines at the end. */
  printed: boolean;
}

/** Of all entries of one job. A result of 1 MiB holds the log, the detail and the errors. */
const MAX_CHARS = 250_000;
const MAX_LINES = 2_000;
const MAX_LINE_CHARS = 10_000;
/** Pieces that are printed this soon after one another are one text, so that no secret hides in a seam. */
const SEAM_MS = 100;

/**
 * What a job said, up to a limit; the rest is counted and thrown away. Nothing leaves before the end, when
 * all secrets are known.
 */
export class JobLog {
  #entries: Entry[] = [];
  #chars = 0;
  #droppedBytes = 0;

  add(level: LogLevel, text: string, time = wallMs()): void {
    const room = this.#room(text.length);
    if (room > 0) this.#entries.push({ time, level, text: text.slice(0, room), printed: false });
  }

  /** @param chunk at most 64 kB as a pipe gives it */
  print(level: LogLevel, chunk: Buffer): void {
    const room = this.#room(chunk.length);
    if (room === 0) return;
    const text = chunk.toString('utf8', 0, room);
    const last = this.#entries.at(-1);
    const time = wallMs();
    if (last?.printed === true && last.level === level && time - last.time < SEAM_MS) last.text += text;
    else this.#entries.push({ time, level, text, printed: true });
  }

  /** Everything so far, scrubbed; the log is empty afterwards. */
  take(scrubber: Scrubber): ScriptLogLine[] {
    const lines = this.#entries.flatMap((entry) => linesOf(entry, scrubber));
    const kept = lines.slice(0, MAX_LINES);
    const unsaid = [
      lines.length > MAX_LINES ? `${lines.length - MAX_LINES} lines` : '',
      this.#droppedBytes > 0 ? `${this.#droppedBytes} bytes` : '',
    ].filter((part) => part !== '');
    if (unsaid.length > 0) {
      kept.push({
        time: wallMs(),
        msg: `${unsaid.join(' and ')} more were left out: a log holds ${MAX_CHARS / 1000} kB and ${MAX_LINES} lines`,
        level: 'WARN',
      });
    }
    this.#entries = [];
    this.#chars = 0;
    this.#droppedBytes = 0;
    return kept;
  }

  #room(wanted: number): number {
    const room = Math.min(wanted, MAX_CHARS - this.#chars);
    this.#chars += room;
    this.#droppedBytes += wanted - room;
    return room;
  }
}

function linesOf({ time, level, text, printed }: Entry, scrubber: Scrubber): ScriptLogLine[] {
  const clean = scrubber.text(text);
  const texts = printed ? clean.split(/\r?\n/) : [clean];
  // What is printed ends with a line's end.
  if (printed && texts.at(-1) === '') texts.pop();
  return texts.map((msg) => ({ time, msg: shortened(msg), level: levelOf(level) }));
}

const shortened = (line: string): string =>
  line.length <= MAX_LINE_CHARS
    ? line
    : `${line.slice(0, MAX_LINE_CHARS)}… (${line.length - MAX_LINE_CHARS} more characters)`;

const LEVELS = { debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' } as const;
const levelOf = (level: LogLevel): ScriptLogLine['level'] => LEVELS[level];
