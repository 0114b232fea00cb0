import { chmodSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { EgressProxy, type OpenGate } from '../../src/agent/egress/index.ts';
import {
  hardenSelf,
  letJobsPass,
  removeFolder,
  sandboxReport,
  startChild,
  type Child,
} from '../../src/agent/sandbox/index.ts';
import { createLog } from '../../src/kit/log.ts';
import type { Scope, Victim } from './attacks.ts';
import type { Found, Row } from './attacker.ts';
import { bombs, isRunning } from './bombs.ts';
import { program, READABLE } from './program.ts';

/**
 * Plays the agent in the setting in which it is started (root, uid 1000, a container), runs every attack
 * and every bomb behind the walls, and prints one JSON line: BatteryReport.
 */
export interface BatteryReport {
  sandbox: { state: string; missing: string[] };
  sections: { title: string; rows: Row[] }[];
}

const here = import.meta.dirname;
/** Should nobody be left who waits for it. */
const LIFE_MS = 115_000;
const secret = process.env['AGENT_SECRET'] ?? fail('AGENT_SECRET is not set');

function fail(message: string): never {
  throw new Error(message);
}

async function listen(server: Server, at: number | { path: string }): Promise<Server> {
  if (typeof at === 'number') server.listen(at, '127.0.0.1');
  else server.listen(at);
  await once(server, 'listening');
  return server;
}

const portOf = (server: Server): number => (server.address() as { port: number }).port;

async function main(): Promise<void> {
  setTimeout(() => process.exit(1), LIFE_MS).unref();
  hardenSelf();
  const { state, missing } = sandboxReport();
  // Without its walls the attacks would be real.
  if (state !== 'full') throw new Error(`nothing is attacked where walls are missing: ${missing.join('. ')}`);
  const root = mkdtempSync(join(tmpdir(), 'vedette-hostile-'));
  const work = join(root, 'work');
  mkdirSync(join(root, 'state'));
  mkdirSync(work, { mode: 0o700 });
  for (const folder of [root, work]) letJobsPass(folder);
  writeFileSync(join(root, 'state/agent.db'), secret);
  const control = await listen(
    createServer(() => {}),
    0,
  );
  const target = await listen(
    createServer((socket) => socket.end()),
    0,
  );
  const egress = new EgressProxy({
    setup: { useOsResolver: false, policy: { blocked: '', allowed: '' } },
    log: createLog({ level: 'silent', format: 'json', name: 'battery' }),
    onLost: () => {},
  });
  egress.protect([portOf(control)]);
  const gates = [await egress.open(), await egress.open()] as const;
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
  const shared = makeShared(join(root, 'tools'));
  const world = {
    ...shared,
    root,
    work,
    control,
    target,
    abstractName,
    socketPath,
    egressPid: egress.pid!,
    gates,
  };
  const sections: BatteryReport['sections'] = [];
  for (const profile of ['script', 'browser', 'suite'] as const) {
    sections.push(...(await matrix(profile, world)));
    // What a suite may start, a browser may start, too: the same bombs.
    if (profile !== 'suite') {
      sections.push({ title: `${profile}, bombs`, rows: await bombs(profile, work) });
    }
  }
  const lives = isRunning(world.egressPid);
  sections[0]!.rows.push({
    name: 'the egress process lives on',
    outcome: lives ? 'yes' : 'OPEN',
    open: !lives,
  });
  await egress.stop();
  for (const server of [control, target, abstract, named]) server.close();
  await removeFolder(root);
  console.log(JSON.stringify({ sandbox: { state, missing }, sections } satisfies BatteryReport));
  process.exit(0);
}

interface World {
  root: string;
  work: string;
  control: Server;
  target: Server;
  abstractName: string;
  socketPath: string;
  sharedProgram: string;
  sharedArchive: string;
  egressPid: number;
  /** Of the attacker and of the other job. */
  gates: readonly [OpenGate, OpenGate];
}

/** As the agent keeps tools, browsers and dependencies for all jobs. */
function makeShared(folder: string): Pick<World, 'sharedProgram' | 'sharedArchive'> {
  mkdirSync(folder);
  chmodSync(folder, 0o755);
  const [sharedProgram, sharedArchive] = [join(folder, 'tool'), join(folder, 'archive.tar')];
  writeFileSync(sharedProgram, '#!/bin/sh\necho ran\n', { mode: 0o755 });
  writeFileSync(sharedArchive, 'dependencies', { mode: 0o444 });
  chmodSync(sharedProgram, 0o755);
  return { sharedProgram, sharedArchive };
}

const SKIPPED: Readonly<Record<'script' | 'browser' | 'suite', readonly Scope[]>> = {
  script: ['exec'],
  browser: ['no-unix', 'no-exec'],
  // Its native tools run in its folder and its web servers listen; sockets are open to everybody or to none.
  suite: ['no-exec', 'no-programs', 'no-listen', 'sockets-of-the-machine'],
};

/** Every attack out of one profile, beside another job of the same profile. */
async function matrix(profile: keyof typeof SKIPPED, world: World): Promise<BatteryReport['sections']> {
  const { root, work } = world;
  const [mine, its] = [join(work, '1'), join(work, '2')];
  for (const folder of [mine, its]) mkdirSync(folder, { recursive: true });
  const siblingSecret = `sibling-${randomUUID()}`;
  writeFileSync(join(its, 'secret.txt'), siblingSecret);
  const profileFile = join(its, 'profile/Cookies');
  mkdirSync(join(its, 'profile'));
  writeFileSync(profileFile, siblingSecret);
  const [ownGate, otherGate] = world.gates.map(({ port }) => port) as [number, number];
  const sibling = startChild(
    program(profile, './bomb.ts', its, {
      env: { PATH: '/usr/bin:/bin', SIBLING: siblingSecret },
      tcpPorts: [otherGate],
    }),
  );
  sibling.channel.write(`${JSON.stringify({ kind: 'keeper', token: 'sibling' })}\n`);
  const [browserPid] = (await once(createInterface(sibling.channel), 'line', {
    signal: AbortSignal.timeout(30_000),
  })) as [string];
  const tools = dirname(world.sharedProgram);
  const attacker = startChild(
    program(profile, './attacker.ts', mine, {
      tcpPorts: [ownGate],
      readable: [...READABLE, tools],
      executable: [tools],
      may: profile === 'suite' ? ['listen', 'unix-sockets'] : [],
    }),
  );
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
    browserPid: Number(browserPid),
    profileFile,
    allowedPort: ownGate,
    otherGatePort: otherGate,
    egressPid: world.egressPid,
    targetPort: portOf(world.target),
    abstractName: world.abstractName,
    socketPath: world.socketPath,
    sharedProgram: world.sharedProgram,
    sharedArchive: world.sharedArchive,
    folder: mine,
  };
  const skip = SKIPPED[profile];
  attacker.channel.write(`${JSON.stringify({ victim, skip })}\n`);
  const said = await answer(attacker);
  const { rights, walls, ...others } = said ?? { rights: [], walls: [lost(attacker)] };
  const rows = [...walls, ...turned(rights)];
  const survived = [sibling.pid!, victim.browserPid].every(isRunning);
  rows.push({
    name: 'the other job lives on',
    outcome: survived ? 'yes' : 'OPEN it was ended',
    open: !survived,
  });
  const intact = readFileSync(victim.stateFile, 'utf8') === secret;
  rows.push({ name: "the agent's state is untouched", outcome: intact ? 'yes' : 'OPEN', open: !intact });
  await Promise.all([attacker.end(), sibling.end()]);
  for (const folder of [mine, its]) await removeFolder(folder);
  const more = Object.entries(others).map(([title, found]) => ({
    title: `${profile}, ${title}`,
    rows: found,
  }));
  return [{ title: `${profile}, walls`, rows }, ...more];
}

const lost = (child: Child): Row => ({
  name: 'the attacker runs at all',
  outcome: `OPEN no report; it said: ${child.lastWords().trim().slice(-300)}`,
  open: true,
});

/** Rights are turned round: a right that is refused is a wall in the wrong place. */
function turned(rights: Row[]): Row[] {
  return rights.map(({ name, open, outcome }) => ({
    name: `may: ${name}`,
    open: !open,
    outcome: open ? 'yes' : `REFUSED ${outcome}`,
  }));
}

async function answer(child: Child): Promise<Found | undefined> {
  let text = '';
  child.channel.setEncoding('utf8');
  const done = (async () => {
    for await (const chunk of child.channel) {
      text += String(chunk);
      if (text.endsWith('\n')) return JSON.parse(text) as Found;
    }
    return undefined;
  })();
  return Promise.race([done, sleep(30_000, undefined, { ref: false })]);
}

await main().catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
