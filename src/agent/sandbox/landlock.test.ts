import { expect, test } from 'vitest';
import { lacksOf, landlockPlan, READ, WRITE } from './landlock.ts';

const allowed = {
  paths: [
    { path: '/lib', rights: READ },
    { path: '/job', rights: WRITE },
  ],
  tcpPorts: [8080],
  bind: false,
};

test('asks a kernel only for what its version knows', () => {
  const handled = [1, 2, 3, 4, 5, 6, 7].map((version) => landlockPlan(version, allowed).handled);
  expect(handled.map(({ files }) => files.toString(16))).toEqual([
    '1fff',
    '3fff',
    '7fff',
    '7fff',
    'ffff',
    'ffff',
    'ffff',
  ]);
  expect(handled.map(({ tcp }) => tcp)).toEqual([0, 0, 0, 3, 3, 3, 3]);
  expect(handled.map(({ scopes }) => scopes)).toEqual([0, 0, 0, 0, 0, 3, 3]);
});

test('gives no right that it does not ask for, which the kernel would refuse', () => {
  for (let version = 1; version <= 7; version++) {
    const { handled, paths, ports } = landlockPlan(version, allowed);
    for (const { rights } of paths) expect(rights & ~handled.files).toBe(0);
    expect(ports).toHaveLength(version < 4 ? 0 : 1);
  }
});

test('any port is any port; binding is apart', () => {
  expect(landlockPlan(7, { ...allowed, tcpPorts: undefined })).toMatchObject({
    handled: { tcp: 1 },
    ports: [],
  });
  expect(landlockPlan(7, { ...allowed, tcpPorts: undefined, bind: true }).handled.tcp).toBe(0);
});

test('says what a version lacks', () => {
  expect([0, 1, 4, 6, 7].map((version) => lacksOf(version).length)).toEqual([1, 2, 1, 0, 0]);
});
