import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { OpenGate } from '../egress/index.ts';
import { ExecutorFault } from '../ports.ts';
import { letJobsPass, removeFolder } from '../sandbox/index.ts';
import { Gone, SuiteProcess } from './process.ts';
import { SuiteProblem } from './problem.ts';

const GB = 1024 ** 3;
const LIMITS = { memoryBytes: 2 * GB, processes: 64, diskBytes: 4 * GB };

export interface WorkshopOptions {
  folder: string;
  /** The way to registries and mirrors; null where every target may be reached. */
  openGate: () => Promise<OpenGate | null>;
  env: Readonly<Record<string, string>>;
  /** What its programs may read and start. */
  readable: () => readonly string[];
}

/** A process of ours with an empty folder, within the walls of a suite but without any of its code. */
export class Workshop {
  readonly #options: WorkshopOptions;
  #last = 0;

  constructor(options: WorkshopOptions) {
    this.#options = options;
  }

  async prepare(): Promise<void> {
    const { folder } = this.#options;
    await removeFolder(folder);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    letJobsPass(folder);
  }

  /** @throws ExecutorFault: whatever goes wrong here, no project is at fault */
  async use<T>(
    work: (place: { process: SuiteProcess; folder: string; gate: OpenGate | null }) => Promise<T>,
  ): Promise<T> {
    const { openGate, env, readable } = this.#options;
    const folder = join(this.#options.folder, String(++this.#last));
    await mkdir(folder, { mode: 0o700 });
    const gate = await openGate();
    const process = new SuiteProcess({
      folder,
      readable: readable(),
      executable: readable(),
      gates: gate === null ? [] : [gate],
      env,
      limits: LIMITS,
      may: [],
    });
    try {
      return await work({ process, folder, gate });
    } catch (error) {
      if (error instanceof SuiteProblem) throw new ExecutorFault(error.code, error.message);
      if (error instanceof Gone) {
        throw new ExecutorFault(
          'SUITE_TOOLS',
          `a tool could not be made ready: ${process.lastWords().slice(-300)}`,
        );
      }
      throw error;
    } finally {
      await process.end();
      gate?.close();
      await removeFolder(folder);
    }
  }
}
