import { ExecutorFault } from '../ports.ts';
import { DEFAULT_RUNTIME, findRuntimes, type Runtime } from '../runtimes/index.ts';

/** The runtimes of this machine. One that is installed while the agent runs is found at the next look. */
export class InstalledRuntimes {
  #all: readonly Runtime[];
  readonly #find: () => readonly Runtime[];

  constructor(find: () => readonly Runtime[] = findRuntimes) {
    this.#find = find;
    this.#all = find();
  }

  get ids(): string[] {
    return this.#all.map(({ id }) => id);
  }

  /** Looks again. @returns whether something changed */
  look(): boolean {
    const before = this.ids.join();
    this.#all = this.#find();
    return this.ids.join() !== before;
  }

  /** What runs a check that names none: the default, or the newest of what is there. */
  usual(): Runtime | undefined {
    return this.#all.find(({ id }) => id === DEFAULT_RUNTIME) ?? this.#all[0];
  }

  /** @throws ExecutorFault that says how to get it */
  choose(id: string | null): Runtime {
    const found = id === null ? this.usual() : this.#all.find((each) => each.id === id);
    if (found !== undefined) return found;
    const wanted = id ?? DEFAULT_RUNTIME;
    throw new ExecutorFault(
      'RUNTIME_MISSING',
      `runtime ${wanted} is not installed on this agent; installed: ${this.ids.join(', ') || 'none'}; ` +
        `\`vedette runtime install ${wanted}\` installs it`,
    );
  }
}
