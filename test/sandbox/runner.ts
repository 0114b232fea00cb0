import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { installedFiles, startChild, type Child, type ChildProgram } from '../../src/agent/sandbox/index.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A child that does what it is told, behind the walls under test. */
export interface Prisoner extends AsyncDisposable {
  readonly child: Child;
  /** Its job folder. */
  readonly folder: string;
  /** Runs a program text in it as the body of an async function with `load` for modules of Node. */
  run(text: string): Promise<unknown>;
}

export const PRISONER = new URL('./prisoner.ts', import.meta.url);
export const READABLE = [import.meta.dirname, ...installedFiles()];

/** Starts a child in its own job folder; ended, with the folder, at the end of the test. */
export function imprison(program: Partial<ChildProgram> = {}, start = startChild): Prisoner {
  const folder = temporaryFolder();
  const child = start({
    profile: 'script',
    entry: PRISONER,
    env: { PATH: '/usr/bin:/bin' },
    readable: READABLE,
    folder: folder.path,
    may: [],
    heapMb: 128,
    permission: false,
    ...program,
  });
  child.stdout?.resume();
  const answers = createInterface(child.channel);
  answers.on('error', () => {});
  return {
    child,
    folder: folder.path,
    async run(text) {
      child.channel.write(`${JSON.stringify(text)}\n`);
      const answered = once(answers, 'line').then(([line]) => String(line));
      const ended = child.exited.then(({ cause }) => {
        const error = `the child ended (${cause}): ${child.lastWords()}`;
        return JSON.stringify({ error } satisfies Answer);
      });
      // A child that ends takes its channel along.
      const { value, error } = JSON.parse(await Promise.race([answered.catch(() => ended), ended])) as Answer;
      if (error !== undefined) throw new Error(error);
      return value;
    },
    async [Symbol.asyncDispose]() {
      await child.end();
      folder[Symbol.dispose]();
    },
  };
}

export interface Answer {
  value?: unknown;
  error?: string;
}
