import { expect, test } from 'vitest';
import { Quiet } from './quiet.ts';

const never = new AbortController().signal;
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Work that begins when it is let and ends when it is told. */
function work(name: string, said: string[]): { run: () => Promise<string>; end: () => void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const run = async (): Promise<string> => {
    said.push(`${name} begins`);
    await promise;
    said.push(`${name} ends`);
    return name;
  };
  return { run, end: resolve };
}

test('one is alone: after those before it, before those behind it', async () => {
  const quiet = new Quiet();
  const said: string[] = [];
  const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => work(name, said)) as [W, W, W, W];
  const runs = [quiet.beside(a.run, never), quiet.beside(b.run, never), quiet.alone(c.run, never)];
  await settle();
  expect(quiet.isAsked).toBe(true);
  runs.push(quiet.beside(d.run, never));
  for (const each of [a, b, c, d]) {
    each.end();
    await settle();
  }
  expect(await Promise.all(runs)).toEqual(['a', 'b', 'c', 'd']);
  expect(said.join(', ')).toBe('a begins, b begins, a ends, b ends, c begins, c ends, d begins, d ends');
  expect(quiet.isAsked).toBe(false);
});

test('two that want to be alone are so one after the other', async () => {
  const quiet = new Quiet();
  const said: string[] = [];
  const [a, b] = ['a', 'b'].map((name) => work(name, said)) as [W, W];
  const runs = [quiet.alone(a.run, never), quiet.alone(b.run, never)];
  b.end();
  await settle();
  expect(said).toEqual(['a begins']);
  a.end();
  expect(await Promise.all(runs)).toEqual(['a', 'b']);
});

test('who gives up waiting leaves the others as they were', async () => {
  const quiet = new Quiet();
  const said: string[] = [];
  const [a, b] = ['a', 'b'].map((name) => work(name, said)) as [W, W];
  const first = quiet.beside(a.run, never);
  const stop = new AbortController();
  const second = quiet.alone(b.run, stop.signal);
  await settle();
  stop.abort();
  expect(await second).toBeUndefined();
  expect(quiet.isAsked).toBe(false);
  a.end();
  expect(await first).toBe('a');
  expect(said).toEqual(['a begins', 'a ends']);
});

type W = ReturnType<typeof work>;
