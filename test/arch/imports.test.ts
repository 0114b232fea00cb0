import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkTypes } from '../../src/checks/index.ts';

/**
 * The import rule. Floors: an import only goes down, agent and service never meet. Rooms: a folder of
 * agent, service and checks is entered by its index.ts only. Privileges have a home. Cycles are oxlint's
 * part (import/no-cycle).
 */
const src = join(import.meta.dirname, '../../src');

const FLOORS: Readonly<Record<string, readonly string[]>> = {
  kit: [],
  contract: ['kit'],
  checks: ['contract', 'kit'],
  agent: ['checks', 'contract', 'kit'],
  service: ['checks', 'contract', 'kit'],
  cli: ['agent', 'service', 'checks', 'contract', 'kit'],
};

/** Modules that only these places may import. A place is a folder or a file. */
const HOMES: Readonly<Record<string, readonly string[]>> = {
  'node:child_process': ['agent/sandbox/', 'agent/suites/child/', 'checks/icmp/', 'cli/'],
  'node:worker_threads': ['service/store/'],
  'node:sqlite': ['agent/authorities/browser-database.ts', 'agent/spool/', 'service/store/'],
  pg: ['service/store/'],
  '@electric-sql/pglite': ['service/store/'],
  kysely: ['service/store/', 'service/queue/', 'service/scheduler/', 'service/ports.ts'],
  fastify: ['service/'],
  ws: ['agent/connection/', 'service/agents/'],
  aws4fetch: ['service/blobs/'],
  undici: ['service/blobs/'],
  dotenv: ['cli/'],
};

/** Words that only these places may use. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  // User code has an environment of its own.
  'process.env': ['cli/', 'agent/scripts/child/', 'agent/suites/child/preload.ts'],
  // A child process ends itself.
  'process.exit(': [
    'cli/',
    'agent/egress/child.ts',
    'agent/probes/serve.ts',
    'agent/scripts/child/',
    'agent/suites/child/',
  ],
};

/** Files below a room that other rooms may import beside its index.ts: types, and code of processes of users. */
const OPEN_FILES = ['service/store/schema.ts', 'agent/scripts/child/network.ts'];

const typeFolders = new Set(checkTypes().map((type) => type.route));

interface Import {
  file: string;
  target: string;
}

const files = globSync('**/*.{ts,mjs}', { cwd: src })
  .filter((file) => !file.endsWith('.test.ts'))
  .sort();

const IMPORT = /(?:\bfrom\s+|\bimport\s+|\bimport\(\s*)'([^']+)'/g;

function importsOf(file: string): Import[] {
  return [...codeOf(file).matchAll(IMPORT)].map(([, target]) => ({ file, target: target! }));
}

/** The text without comments, which may name anything. */
function codeOf(file: string): string {
  return readFileSync(join(src, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/(^|\s)\/\/.*$/gm, '');
}

const isAt = (file: string, places: readonly string[]): boolean =>
  places.some((place) => (place.endsWith('/') ? file.startsWith(place) : file === place));

function complaint({ file, target }: Import): string | undefined {
  if (!target.startsWith('.')) return homeComplaint(file, target);
  const to = relative(src, resolve(src, dirname(file), target)).replaceAll('\\', '/');
  return to.startsWith('..')
    ? outsideComplaint(file, to)
    : (floorComplaint(file, to) ?? roomComplaint(file, to));
}

const { devDependencies } = JSON.parse(readFileSync(join(src, '../package.json'), 'utf8')) as {
  devDependencies: Record<string, string>;
};

function homeComplaint(file: string, target: string): string | undefined {
  // What is published and what the images hold comes without them.
  if (Object.hasOwn(devDependencies, target)) return `${target} is only there for development`;
  const home = Object.entries(HOMES).find(([name]) => target === name || target.startsWith(`${name}/`));
  return home === undefined || isAt(file, home[1]) ? undefined : `${target} belongs to ${home[1].join(', ')}`;
}

function outsideComplaint(file: string, to: string): string {
  return `${file} leaves src for ${to}`;
}

function floorComplaint(file: string, to: string): string | undefined {
  const [from = '', floor = ''] = [file.split('/')[0], to.split('/')[0]];
  return from === floor || FLOORS[from]?.includes(floor) ? undefined : `${from} may not import ${floor}`;
}

function roomComplaint(file: string, to: string): string | undefined {
  const [fromFloor, fromRoom] = file.split('/');
  const [toFloor, toRoom, inside] = to.split('/');
  const crosses = fromFloor !== toFloor || fromRoom !== toRoom;
  // Two parts: a file of the floor itself, not of a room.
  if (inside === undefined || !crosses || isAt(to, OPEN_FILES)) return undefined;
  if (toFloor === 'checks' && typeFolders.has(toRoom!) && file !== 'checks/registry.ts') {
    return `only the registry imports a check type, not ${file}`;
  }
  return inside === 'index.ts' ? undefined : `${toFloor}/${toRoom} is entered by its index.ts`;
}

describe('the import rule', () => {
  test('finds the files and their imports', () => {
    expect(files.length).toBeGreaterThan(20);
    expect(importsOf('checks/registry.ts').length).toBeGreaterThan(4);
  });

  test.each(files)('%s obeys', (file) => {
    const complaints = importsOf(file).map((each) => complaint(each));
    expect(complaints.filter((each) => each !== undefined)).toEqual([]);
  });

  test.each([
    ['service/http/index.ts', '../../agent/index.ts', 'service may not import agent'],
    ['kit/log.ts', '../checks/index.ts', 'kit may not import checks'],
    ['agent/dispatch/lane.ts', '../spool/file.ts', 'agent/spool is entered by its index.ts'],
    ['checks/url/run.ts', '../api/run.ts', 'only the registry imports a check type, not checks/url/run.ts'],
    ['cli/main.ts', 'vitest', 'vitest is only there for development'],
    ['service/http/index.ts', 'pg', 'pg belongs to service/store/'],
    ['agent/dispatch/index.ts', 'node:child_process', /belongs to agent\/sandbox/],
  ])('refuses %s importing %s', (file, target, why) => {
    expect(complaint({ file, target })).toMatch(why);
  });
});

describe('privileged words', () => {
  test.each(Object.entries(WORDS))('%s stands only in %s', (word, places) => {
    const users = files.filter((file) => codeOf(file).includes(word));
    expect(users.filter((file) => !isAt(file, places))).toEqual([]);
  });
});

describe('rooms', () => {
  const rooms = globSync(['agent/*/', 'service/*/'], { cwd: src }).filter((room) =>
    files.some((file) => file.startsWith(`${room.replace(/\/?$/, '/')}`)),
  );

  test.each(rooms)('%s says in its index.ts what it hides', (room) => {
    const text = readFileSync(join(src, room, 'index.ts'), 'utf8');
    expect(text).toMatch(/^\/\*\*\n( \* .*\n){2,}/);
  });
});
