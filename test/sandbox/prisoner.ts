import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { getSystemErrorName } from 'node:util';
import { compileFunction } from 'node:vm';
import koffi from 'koffi';

/** Runs the texts that come over its channel and answers with what they return or throw. */
const channel = new Socket({ fd: 3, readable: true, writable: true });
channel.on('close', () => process.exit(0));

/** What an attempt ended with: `done`, or the code of its error. */
const outcome = async (attempt: () => unknown): Promise<string> => {
  try {
    await attempt();
    return 'done';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
};

const libc = koffi.load(null);
const syscall = libc.func('long syscall(long, long, long, long, long, long, long)');
/** A system call of x64 by its number; `done`, or the name of its error. */
const call = (number: number, ...args: number[]): string => {
  const result: number = syscall(number, ...[...args, 0, 0, 0, 0, 0, 0].slice(0, 6));
  return result < 0 ? getSystemErrorName(-koffi.errno()) : 'done';
};

const load = (name: string): unknown => process.getBuiltinModule(name);

for await (const line of createInterface(channel)) {
  const text = JSON.parse(line) as string;
  let answer;
  try {
    const body = compileFunction(`return (async () => { ${text} })();`, ['load', 'outcome', 'call']);
    answer = { value: await (body(load, outcome, call) as Promise<unknown>) };
  } catch (error) {
    answer = { error: String(error) };
  }
  channel.write(`${JSON.stringify(answer)}\n`);
}
