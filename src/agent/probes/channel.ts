import type { Duplex } from 'node:stream';
import type { TryReport } from '../../checks/execute.ts';
import type { PhaseAnswer, PhaseQuestion } from '../../checks/script-hooks.ts';
import type { Job } from '../../contract/index.ts';
import { LineReader } from '../lines.ts';

/** What every try in one probe shares. */
export interface ProbeSetup {
  /** Resolve targets' names through the operating system. */
  useOsResolver: boolean;
  /** What targets may be reached: the settings as they were written. */
  policy?: { blocked: string; allowed: string };
  /** Targets that the proxy of a location is not for, as in NO_PROXY. */
  noProxy?: string;
}

/** From the agent to a probe process. `setup` comes first; `n` numbers the tries of one probe. */
export type ToProbe =
  | { t: 'setup'; setup: ProbeSetup }
  /** `asks`: the try's scripts are run by whoever answers its questions. */
  | { t: 'run'; n: number; job: Job; asks: boolean }
  | { t: 'cancel'; n: number }
  | { t: 'answer'; n: number; answer: PhaseAnswer | { fault: { code: string; message: string } } };

/** From a probe process to the agent. */
export type FromProbe =
  | { t: 'ready' }
  | { t: 'done'; n: number; report: TryReport }
  | { t: 'fault'; n: number; code: string; message: string }
  /** One at a time and try: the scripts of a phase are due. */
  | { t: 'ask'; n: number; question: PhaseQuestion }
  /** Sent every BEAT_MS: the event loop of the probe turns. */
  | { t: 'beat'; rssBytes: number };

export const BEAT_MS = 1000;

/** A probe that sends a longer line is out of order; results are bounded far below. */
const MAX_LINE_CHARS = 16 * 1024 * 1024;

/**
 * Messages as lines of JSON. What one turn of the event loop sends leaves in one write: at 1,000
 * results a second the write calls would cost more than the checks' own bookkeeping.
 *
 * @param onBroken called once, when the other side sends what is not a line of JSON
 */
export function openChannel<Out extends object, In extends object>(
  stream: Duplex,
  receive: (message: In) => void,
  onBroken: (why: string) => void,
): (message: Out) => void {
  const lines = new LineReader(MAX_LINE_CHARS);
  stream.on('data', (bytes: Buffer) => {
    try {
      for (const line of lines.push(bytes)) receive(JSON.parse(line) as In);
    } catch (error) {
      stream.destroy();
      onBroken(error instanceof Error ? error.message : String(error));
    }
  });
  return batchedWriter(stream);
}

function batchedWriter(stream: Duplex): (message: object) => void {
  let waiting: string[] = [];
  const flush = (): void => {
    const text = waiting.join('');
    waiting = [];
    if (stream.writable) stream.write(text);
  };
  return (message) => {
    if (waiting.push(`${JSON.stringify(message)}\n`) === 1) setImmediate(flush);
  };
}
