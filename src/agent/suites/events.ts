import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { messageOf } from '../../kit/errors.ts';
import { LineReader } from '../lines.ts';

const Text = z.string();
const Time = z.number().catch(0);
const Count = z.int().min(0).catch(0);

const FoundError = z.object({
  message: Text,
  stack: Text.optional(),
  snippet: Text.optional(),
  file: Text.optional(),
  line: Count.optional(),
  column: Count.optional(),
});

const FoundTest = z.object({
  id: Text,
  project: Text,
  file: Text,
  line: Count,
  column: Count,
  titlePath: z.array(Text),
  tags: z.array(Text),
  expectedStatus: Text,
  retries: Count,
});

interface FoundStep {
  title: string;
  category: string;
  startTime: number;
  duration: number;
  error?: string | undefined;
  steps: FoundStep[];
}
const FoundStep: z.ZodType<FoundStep> = z.lazy(() =>
  z.object({
    title: Text,
    category: Text,
    startTime: Time,
    duration: Time,
    error: Text.optional(),
    steps: z.array(FoundStep),
  }),
);

const Begun = z.object({ test: FoundTest, retry: Count, startTime: Time });
const Finished = Begun.extend({
  status: z.enum(['passed', 'failed', 'timedOut', 'skipped', 'interrupted']),
  duration: z.number().min(0).catch(0),
  errors: z.array(FoundError),
  softErrors: Count,
  attachments: z.array(
    z.object({ name: Text, contentType: Text, path: Text.nullable(), body: Text.optional() }),
  ),
  steps: z.array(FoundStep),
});

/** What the reporter writes. The project's code can write there too, so every line is looked at. */
const Event = z.discriminatedUnion('t', [
  z.object({ t: z.literal('begin'), pid: z.int().positive(), version: Text, tests: Count, at: Time }),
  Begun.extend({ t: z.literal('test-begin') }),
  Finished.extend({ t: z.literal('test-end') }),
  z.object({ t: z.literal('error'), error: FoundError }),
  z.object({ t: z.literal('end'), status: Text, at: Time }),
]);
export type Event = z.infer<typeof Event>;
export type BegunTry = z.infer<typeof Begun>;
export type FinishedTry = z.infer<typeof Finished>;
export type FoundError = z.infer<typeof FoundError>;

/** One test: errors, steps and texts of its attachments. */
const MAX_LINE_CHARS = 8 * 1024 * 1024;
/** Of one suite: some ten thousand tests. */
const MAX_BYTES = 256 * 1024 * 1024;
const READ_BYTES = 256 * 1024;

/**
 * The file that the reporter of a suite appends to. It is made, and kept open, before any code of the
 * project runs: whatever that puts in its place later, this very file is read.
 */
export class EventFile {
  readonly path: string;
  readonly #file: FileHandle;
  readonly #lines = new LineReader(MAX_LINE_CHARS);
  readonly #buffer = Buffer.allocUnsafe(READ_BYTES);
  #position = 0;
  #broken: string | undefined;
  #reading: Promise<Event[]> = Promise.resolve([]);

  static async create(path: string): Promise<EventFile> {
    const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
    return new EventFile(path, await open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600));
  }

  constructor(path: string, file: FileHandle) {
    this.path = path;
    this.#file = file;
  }

  /** Why no more is read; undefined while all is well. */
  get broken(): string | undefined {
    return this.#broken;
  }

  /** What was written since the last call. */
  read(): Promise<Event[]> {
    this.#reading = this.#reading.then(() => this.#readOn());
    return this.#reading;
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #readOn(): Promise<Event[]> {
    const found: Event[] = [];
    while (this.#broken === undefined) {
      const { bytesRead } = await this.#file.read(this.#buffer, 0, READ_BYTES, this.#position);
      if (bytesRead === 0) break;
      this.#position += bytesRead;
      try {
        if (this.#position > MAX_BYTES) throw new RangeError('more than 256 MB about its tests');
        for (const line of this.#lines.push(this.#buffer.subarray(0, bytesRead))) {
          found.push(Event.parse(JSON.parse(line)));
        }
      } catch (error) {
        this.#broken = error instanceof RangeError ? messageOf(error) : 'a line that is none of ours';
      }
    }
    return found;
  }
}
