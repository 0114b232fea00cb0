import { mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  hardenSelf,
  installedFiles,
  removeFolder,
  sandboxReport,
  startChild,
  type Child,
  type ChildProgram,
  type Profile,
} from '../../src/agent/sandbox/index.ts';
import type { Victim } from './attacks.ts';
import type { Row } from './attacker.ts';

/**
 * Plays the agent in the setting in which it is started (root, uid 1000, a container), runs every attack
 * and every bomb behind the walls, and prints one JSON line: BatteryReport.
 */
export interface BatteryReport {
  sandbox: { state: string; missing: string[] };
  sections: { title: string; rows: Row[] }[];
}

const MB = 1024 * 1024;
const here = import.meta.dirname;
const READABLE = [...installedFiles(), here, '/etc/resolv.conf', '/etc/ssl'];
const secret = process.env['AGENT_SECRET'] ?? fail('AGENT_SECRET is not set');

function fail(message: string): never {
  throw new Error(message);
}

const program = (profile: Profile, entry: string, folder: string, more: Partial<ChildProgram> = {}) => ({
  profile,
  entry: new URL(entry, import.meta.url),
  env: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
  readable: READABLE,
  folder,
  may: [],
  heapMb: 256,
  permission: false,
  ...more,
});

async function listen(server: Server, at: number | { path: string }): Promise<Server> {
  if (typeof at === 'number') server.listen(at, '127.0.0.1');
  else server.listen(at);
  await once(server, 'listening');
  return server;
}

const portOf = (server: Server): number => (server.address() as { port: number }).port;

async function main(): Promise<void> {
  hardenSelf();
  const root = mkdtempSync(join(tmpdir(), 'vedette-hostile-'));
  const work = join(root, 'work');
  mkdirSync(join(root, 'state'));
  writeFileSync(join(root, 'state/agent.db'), secret);
  const control = await listen(
    createServer(() => {}),
    0,
  );
  const allowed = await listen(
    createServer((socket) => socket.end()),
    0,
  );
  const abstractName = `vedette-${randomUUID()}`;
  const abstract = await listen(
    createServer(() => {}),
    { path: `\0${abstractName}` },
  );
  const socketPath = join(root, 'agent.sock');
  const named = await listen(
    createServer(() => {}),
    { path: socketPath },
  );
  const world = { root, work, control, allowed, abstractName, socketPath };
  const sections = [
    { title: 'script', rows: await matrix('script', world) },
    { title: 'browser', rows: await matrix('browser', world) },
    { title: 'bombs', rows: await bombs(work) },
  ];
  for (const server of [control, allowed, abstract, named]) server.close();
  await removeFolder(root);
  const { state, missing } = sandboxReport();
  console.log(JSON.stringify({ sandbox: { state, missing }, sections } satisfies BatteryReport));
  process.exit(0);
}

interface World {
  root: string;
  work: string;
  control: Server;
  allowed: Server;
  abstractName: string;
  socketPath: string;
}

/** Every attack out of one profile, beside another job of the same profile. */
async function matrix(profile: Profile, world: World): Promise<Row[]> {
  const { root, work } = world;
  const [mine, its] = [join(work, '1'), join(work, '2')];
  for (const folder of [mine, its]) mkdirSync(folder, { recursive: true });
  const siblingSecret = `sibling-${randomUUID()}`;
  writeFileSync(join(its, 'secret.txt'), siblingSecret);
  const tcpPorts = [portOf(world.allowed)];
  const sibling = startChild(
    program(profile, './bomb.ts', its, { env: { PATH: '/usr/bin:/bin', SIBLING: siblingSecret }, tcpPorts }),
  );
  sibling.channel.write(`${JSON.stringify({ kind: 'daemon', token: 'sibling' })}\n`);
  const attacker = startChild(program(profile, './attacker.ts', mine, { tcpPorts }));
  const victim: Victim = {
    agentPid: process.pid,
    agentSecret: secret,
    siblingPid: sibling.pid!,
    siblingFolder: its,
    siblingSecret,
    stateFolder: join(root, 'state'),
    stateFile: join(root, 'state/agent.db'),
    workFolder: work,
    appFolder: here,
    controlPort: portOf(world.control),
    allowedPort: portOf(world.allowed),
    abstractName: world.abstractName,
    socketPath: world.socketPath,
    folder: mine,
  };
  const skip = profile === 'browser' ? ['no-unix', 'no-exec'] : ['exec'];
  attacker.channel.write(`${JSON.stringify({ victim, skip })}\n`);
  const said = await answer(attacker);
  const rows = said === undefined ? [lost(attacker)] : judge(said);
  const survived = sibling.pid !== undefined && isRunning(sibling.pid);
  rows.push({
    name: 'the other job lives on',
    outcome: survived ? 'yes' : 'OPEN it was ended',
    open: !survived,
  });
  const intact = readFileSync(victim.stateFile, 'utf8') === secret;
  rows.push({ name: "the agent's state is untouched", outcome: intact ? 'yes' : 'OPEN', open: !intact });
  await Promise.all([attacker.end(), sibling.end()]);
  for (const folder of [mine, its]) await removeFolder(folder);
  return rows;
}

const lost = (child: Child): Row => ({
  name: 'the attacker runs at all',
  outcome: `OPEN no report; it said: ${child.lastWords().trim().slice(-300)}`,
  open: true,
});

/** Rights are turned round: a right that is refused is a wall in the wrong place. */
function judge({ attacks, rights }: { attacks: Row[]; rights: Row[] }): Row[] {
  const refused = rights.map(({ name, open, outcome }) => ({
    name: `may: ${name}`,
    open: !open,
    outcome: open ? 'yes' : `REFUSED ${outcome}`,
  }));
  return [...attacks, ...refused];
}

async function answer(child: Child): Promise<{ attacks: Row[]; rights: Row[] } | undefined> {
  let text = '';
  child.channel.setEncoding('utf8');
  const done = (async () => {
    for await (const chunk of child.channel) {
      text += String(chunk);
      if (text.endsWith('\n')) return JSON.parse(text) as { attacks: Row[]; rights: Row[] };
    }
    return undefined;
  })();
  return Promise.race([done, sleep(30_000, undefined, { ref: false })]);
}

const BOMBS: Record<string, { limits: NonNullable<ChildProgram['limits']>; ends: string[] }> = {
  fork: {
    limits: { memoryBytes: 4096 * MB, processes: 64, diskBytes: 64 * MB },
    ends: ['processes', 'memory'],
  },
  buffers: { limits: { memoryBytes: 400 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['memory', 'exit'] },
  heap: { limits: { memoryBytes: 800 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['memory', 'exit'] },
  crowd: { limits: { memoryBytes: 800 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['memory'] },
  files: { limits: { memoryBytes: 2048 * MB, processes: 64, diskBytes: 200 * MB }, ends: ['disk'] },
  file: { limits: { memoryBytes: 2048 * MB, processes: 64, diskBytes: 200 * MB }, ends: ['disk', 'exit'] },
  daemons: { limits: { memoryBytes: 4096 * MB, processes: 64, diskBytes: 64 * MB }, ends: ['exit'] },
  zombies: { limits: { memoryBytes: 4096 * MB, processes: 200, diskBytes: 64 * MB }, ends: ['exit'] },
};

async function bombs(work: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (const [kind, { limits, ends }] of Object.entries(BOMBS)) {
    const folder = join(work, kind);
    mkdirSync(folder);
    const token = `hostile-${randomUUID()}`;
    const begun = performance.now();
    const child = startChild(
      program('browser', './bomb.ts', folder, { limits, heapMb: kind === 'heap' ? 256 : 2048 }),
    );
    child.channel.write(`${JSON.stringify({ kind, token })}\n`);
    const end = await Promise.race([
      child.exceeded,
      child.exited.then(() => 'exit'),
      sleep(20_000, 'nothing stopped it', { ref: false }),
    ]);
    const noticed = Math.round(performance.now() - begun);
    await child.end();
    const took = Math.round(performance.now() - begun - noticed);
    const left = running(token);
    const dead = zombies();
    const size = folderSize(folder);
    await removeFolder(folder);
    const open = !ends.includes(end) || left > 0 || dead > 0 || size > 3 * limits.diskBytes || exists(folder);
    const outcome = `${end} at ${noticed} ms, ended in ${took} ms, ${left} left, ${dead} zombies, ${Math.round(size / MB)} MB on disk`;
    rows.push({ name: `bomb: ${kind}`, open, outcome: open ? `OPEN ${outcome}` : outcome });
  }
  return rows;
}

function exists(folder: string): boolean {
  try {
    return statSync(folder).isDirectory();
  } catch {
    return false;
  }
}

const pids = (): string[] => readdirSync('/proc').filter((name) => /^\d+$/.test(name));

function read(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

const running = (token: string): number =>
  pids().filter((pid) => read(`/proc/${pid}/cmdline`).includes(token)).length;
const isRunning = (pid: number): boolean => /^State:\s+[^ZX]/m.test(read(`/proc/${pid}/status`));

/** Dead children of ours that nobody waited for, orphans of theirs included where we are their reaper. */
const zombies = (): number =>
  pids().filter((pid) => {
    const status = read(`/proc/${pid}/status`);
    return /^State:\s+Z/m.test(status) && status.includes(`PPid:\t${process.pid}\n`);
  }).length;

function folderSize(folder: string): number {
  let sum = 0;
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile()) sum += statSync(join(entry.parentPath, entry.name)).size;
  }
  return sum;
}

await main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
