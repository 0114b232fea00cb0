import { StringDecoder } from 'node:string_decoder';
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
  /** It went on, but there was no room for the rest. */
  cut: boolean;
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
  /** A character may be split over two chunks. */
  #decoders = new Map<LogLevel, StringDecoder>();
  #chars = 0;
  #droppedBytes = 0;

  add(level: LogLevel, text: string, time = wallMs()): void {
    const room = this.#room(text.length);
    if (room === 0) return;
    this.#entries.push({ time, level, text: text.slice(0, room), printed: false, cut: room < text.length });
  }

  /** @param chunk at most 64 kB as a pipe gives it */
  print(level: LogLevel, chunk: Buffer): void {
    const room = this.#room(chunk.length);
    if (room === 0) return;
    const text = this.#decoderOf(level).write(chunk.subarray(0, room));
    const cut = room < chunk.length;
    const last = this.#entries.at(-1);
    const time = wallMs();
    if (last?.printed === true && last.level === level && time - last.time < SEAM_MS) {
      last.text += text;
      last.cut = cut;
    } else this.#entries.push({ time, level, text, printed: true, cut });
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
    this.#decoders.clear();
    this.#chars = 0;
    this.#droppedBytes = 0;
    return kept;
  }

  #decoderOf(level: LogLevel): StringDecoder {
    const decoder = this.#decoders.get(level) ?? new StringDecoder('utf8');
    this.#decoders.set(level, decoder);
    return decoder;
  }

  #room(wanted: number): number {
    const room = Math.min(wanted, MAX_CHARS - this.#chars);
    this.#chars += room;
    this.#droppedBytes += wanted - room;
    return room;
  }
}

function linesOf(entry: Entry, scrubber: Scrubber): ScriptLogLine[] {
  const { time, level } = entry;
  const texts = entry.printed ? printedLines(entry, scrubber) : [messageOf(entry, scrubber)];
  return texts.map((msg) => ({ time, msg, level: levelOf(level) }));
}

function printedLines({ text, cut }: Entry, scrubber: Scrubber): string[] {
  const lines = (cut ? beginningOf(text, scrubber) : scrubber.text(text)).split(/\r?\n/);
  // What is printed ends with a line's end.
  if (lines.at(-1) === '') lines.pop();
  return lines.map((line) =>
    line.length <= MAX_LINE_CHARS ? line : withRest(line.slice(0, MAX_LINE_CHARS), line.length),
  );
}

/** What is too long was perhaps cut where it came from: its end is not to be seen. */
function messageOf({ text, cut }: Entry, scrubber: Scrubber): string {
  if (text.length > MAX_LINE_CHARS) {
    return withRest(beginningOf(text.slice(0, MAX_LINE_CHARS), scrubber), text.length);
  }
  return cut ? beginningOf(text, scrubber) : scrubber.text(text);
}

const withRest = (line: string, length: number): string =>
  `${line}… (${length - MAX_LINE_CHARS} more characters)`;

/** Of a text that goes on: without an end that may be the beginning of a secret, or half a character. */
function beginningOf(text: string, scrubber: Scrubber): string {
  const bytes = Buffer.from(text.replace(/[\uD800-\uDBFF]$/, ''));
  // A pass keeps what it cannot decide about yet, and is not asked for it.
  return new StringDecoder('utf8').write(scrubber.pass().push(bytes));
}

const LEVELS = { debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' } as const;
const levelOf = (level: LogLevel): ScriptLogLine['level'] => LEVELS[level];
