import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Attack, Victim } from './attacks.ts';
import { changes } from './neighbours.ts';

/*
 * Tools, browsers and dependencies that the agent keeps for all suites: a job that could change one would run
 * its code in the next job, of somebody else.
 */

const onFile = (which: 'sharedProgram' | 'sharedArchive'): Attack[] => {
  const at = (what: string, run: (path: string, v: Victim) => unknown): Attack => ({
    name: `${which}: ${what}`,
    run: (v) => run(v[which], v),
  });
  return [
    at('write', (path) => writeFileSync(path, 'poison')),
    at('append', (path) => appendFileSync(path, 'poison')),
    at('open to write', (path) => openSync(path, 'r+')),
    at('truncate', (path) => truncateSync(path, 1)),
    at('remove', (path) => rmSync(path)),
    at('rename', (path) => renameSync(path, `${path}.old`)),
    at('move away', (path, v) => renameSync(path, join(v.folder, 'moved'))),
    at('put another in its place', (path, v) => {
      const own = join(v.folder, 'poison');
      writeFileSync(own, 'poison');
      renameSync(own, path);
    }),
    at('permissions', (path) => changes(path, () => chmodSync(path, 0o777))),
    at('times', (path) => changes(path, () => utimesSync(path, 1, 1))),
    at('write by a link of its own', (path, v) => {
      const link = join(v.folder, `link-${which}`);
      symlinkSync(path, link);
      writeFileSync(link, 'poison');
    }),
    at('write by a second name', (path, v) => {
      const name = join(v.folder, `name-${which}`);
      linkSync(path, name);
      writeFileSync(name, 'poison');
    }),
    at('write by its descriptor', (path) => {
      const fd = openSync(path, 'r');
      writeFileSync(`/proc/self/fd/${fd}`, 'poison');
    }),
    at('permissions by its descriptor', (path) =>
      changes(path, () => chmodSync(`/proc/self/fd/${openSync(path, 'r')}`, 0o777)),
    ),
  ];
};

export const SHARED: readonly Attack[] = [
  ...onFile('sharedProgram'),
  ...onFile('sharedArchive'),
  {
    name: 'plant a file beside them',
    run: (v) => writeFileSync(join(dirname(v.sharedProgram), 'planted'), 'poison'),
  },
];

export const SHARED_RIGHTS: readonly Attack[] = [
  { name: 'read what jobs share', run: (v) => readFileSync(v.sharedArchive, 'utf8') },
  {
    name: 'start a program that jobs share',
    scope: 'exec',
    run: (v) => execFileSync(v.sharedProgram, { encoding: 'utf8' }),
  },
];
