import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { installedFiles, sandboxReport, startChild } from '../../src/agent/sandbox/index.ts';
import { temporaryFolder } from '../support/agent.ts';

const entry = new URL('../support/wall-tester.ts', import.meta.url);
const supportFolder = new URL('../support', import.meta.url).pathname;

test('a child sees its environment, its code and the network, and nothing else', async () => {
  using folder = temporaryFolder();
  const secret = join(folder.path, 'credentials.json');
  writeFileSync(secret, 'pl_secret');
  process.env['API_KEY'] = 'pl_secret';
  const child = startChild({
    profile: 'probe',
    entry,
    env: { TZ: 'UTC' },
    readable: [supportFolder, ...installedFiles(), '/etc/resolv.conf'],
    may: [],
    heapMb: 64,
  });
  child.channel.write(secret);
  const [bytes] = (await once(child.channel, 'data')) as [Buffer];
  const limits = readFileSync(`/proc/${child.pid}/limits`, 'utf8');
  const status = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(' ');
  child.kill();
  delete process.env['API_KEY'];
  expect(JSON.parse(bytes.toString())).toEqual({
    environment: { TZ: 'UTC' },
    readSecret: 'ERR_ACCESS_DENIED',
    readPasswd: 'ERR_ACCESS_DENIED',
    readOwnEnvironment: 'ERR_ACCESS_DENIED',
    readParentEnvironment: 'ERR_ACCESS_DENIED',
    readResolvConf: 'possible',
    write: 'ERR_ACCESS_DENIED',
    spawn: 'ERR_ACCESS_DENIED',
    proto: false,
    ppid: process.pid,
    cwd: 'possible',
  });
  const [pid, session] = [status[0], status[5]];
  expect(session).toBe(pid);
  if (sandboxReport().state === 'full') {
    expect(limits).toMatch(/Max core file size\s+0\s+0/);
    expect(limits).toMatch(/Max file size\s+0\s+0/);
    expect(limits).toMatch(/Max open files\s+4096\s+4096/);
  }
  expect(await child.exited).toMatchObject({ cause: 'killed', signal: 'SIGKILL' });
});

test('a child ends when its channel does', async () => {
  const child = startChild({
    profile: 'probe',
    entry,
    env: {},
    readable: [supportFolder, ...installedFiles()],
    may: [],
    heapMb: 64,
  });
  child.channel.write('/nothing');
  await once(child.channel, 'data');
  child.channel.destroy();
  expect(await child.exited).toMatchObject({ code: 0, cause: 'exit' });
});
