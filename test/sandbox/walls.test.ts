import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { createServer as createHttp } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sandboxReport } from '../../src/agent/sandbox/index.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { imprison } from './runner.ts';

const { state, missing } = sandboxReport();
if (state !== 'full') process.stdout.write(`skipped, the walls are ${state} here: ${missing.join('. ')}\n`);
const USER_PROFILES = ['script', 'browser', 'suite'] as const;

describe.skipIf(state !== 'full')('behind the walls', () => {
  test.each(USER_PROFILES)('%s: only its own folder is open', async (profile) => {
    using others = temporaryFolder();
    writeFileSync(join(others.path, 'secret'), 'secret');
    mkdirSync(join(others.path, 'inside'));
    await using prisoner = imprison({ profile });
    const found = await prisoner.run(`
      const fs = load('node:fs');
      const others = ${JSON.stringify(others.path)};
      return {
        own: await outcome(() => fs.promises.writeFile('own.txt', 'mine')),
        ownFolder: await outcome(() => fs.mkdirSync('a/b', { recursive: true })),
        read: await outcome(() => fs.readFileSync(others + '/secret')),
        readInThread: await outcome(() => fs.promises.readFile(others + '/secret')),
        list: await outcome(() => fs.readdirSync(others)),
        write: await outcome(() => fs.writeFileSync(others + '/new', '')),
        rename: await outcome(() => fs.renameSync('own.txt', others + '/inside/own.txt')),
        link: await outcome(() => fs.linkSync(others + '/secret', 'link')),
        byLink: await outcome(() => {
          fs.symlinkSync(others + '/secret', 'symlink');
          fs.readFileSync('symlink');
        }),
        tmp: await outcome(() => fs.writeFileSync('/tmp/vedette-prisoner', '')),
        shm: await outcome(() => fs.writeFileSync('/dev/shm/vedette-prisoner', '')),
        above: await outcome(() => fs.readdirSync('..')),
        agentEnvironment: await outcome(() => fs.readFileSync('/proc/' + process.ppid + '/environ')),
        agentMemory: await outcome(() => fs.openSync('/proc/' + process.ppid + '/mem')),
        oomScore: await outcome(() => fs.writeFileSync('/proc/self/oom_score_adj', '0')),
        null: await outcome(() => fs.writeFileSync('/dev/null', 'x')),
        cwd: process.cwd(),
        home: [process.env.HOME, process.env.TMPDIR],
      };`);
    const EACCES = 'EACCES';
    expect(found).toEqual({
      own: 'done',
      ownFolder: 'done',
      read: EACCES,
      readInThread: EACCES,
      list: EACCES,
      write: EACCES,
      rename: expect.stringMatching(/EACCES|EXDEV/),
      link: expect.stringMatching(/EACCES|EXDEV/),
      byLink: EACCES,
      tmp: EACCES,
      shm: EACCES,
      above: EACCES,
      agentEnvironment: EACCES,
      agentMemory: EACCES,
      oomScore: EACCES,
      null: 'done',
      cwd: prisoner.folder,
      home: [prisoner.folder, prisoner.folder],
    });
  });

  test('programs: none but Node for a script, those of the system for a browser, own ones for a suite', async () => {
    const text = `
      const fs = load('node:fs');
      const { spawnSync } = load('node:child_process');
      const ran = (file) => spawnSync(file, ['-c', 'exit 0']).error?.code ?? 'done';
      fs.writeFileSync('mine', '#!/bin/sh\\nexit 0', { mode: 0o755 });
      return [ran(process.execPath), ran('/bin/sh'), ran('./mine')];`;
    const found = await Promise.all(
      USER_PROFILES.map(async (profile) => {
        await using prisoner = imprison({ profile });
        return await prisoner.run(text);
      }),
    );
    expect(found).toEqual([
      ['done', 'EACCES', 'EACCES'],
      ['done', 'done', 'EACCES'],
      ['done', 'done', 'done'],
    ]);
  });

  test('only the listed port can be reached, by whatever way', async () => {
    const open = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    const closed = createServer((socket) => socket.end()).listen(0, '127.0.0.1');
    await Promise.all([once(open, 'listening'), once(closed, 'listening')]);
    let reached = 0;
    closed.on('connection', () => reached++);
    const [openPort, closedPort] = [open, closed].map((server) => (server.address() as AddressInfo).port);
    await using prisoner = imprison({ tcpPorts: [openPort!] });
    const found = await prisoner.run(`
      const net = load('node:net');
      const reach = (port) => outcome(() => new Promise((resolve, reject) =>
        net.connect(port, '127.0.0.1', resolve).on('error', reject)));
      return {
        listed: await reach(${openPort}),
        other: await reach(${closedPort}),
        mptcp: call(41, 2, 1, 262),
        sctp: call(41, 2, 1, 132),
        datagram: call(41, 2, 2, 0),
        raw: call(41, 2, 3, 1),
        fastOpen: call(44, -1, 0, 0, 0x20000000),
        bind: await outcome(() => new Promise((resolve, reject) =>
          net.createServer().on('error', reject).listen(0, '127.0.0.1', resolve))),
      };`);
    open.close();
    closed.close();
    expect(found).toEqual({
      listed: 'done',
      other: 'EACCES',
      mptcp: 'EPERM',
      sctp: 'EPERM',
      datagram: 'EPERM',
      raw: 'EPERM',
      fastOpen: 'EPERM',
      bind: expect.stringMatching(/EACCES|EPERM/),
    });
    expect(reached).toBe(0);
  });

  test('every port can be reached, and one be waited at, where that is asked for', async () => {
    const server = createHttp((_request, response) => response.end('hello')).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await using prisoner = imprison({ may: ['listen'] });
    const found = await prisoner.run(`
      const text = await (await fetch('http://127.0.0.1:${port}/')).text();
      const server = load('node:http').createServer((q, r) => r.end('own')).listen(0, '127.0.0.1');
      await load('node:events').once(server, 'listening');
      const own = await (await fetch('http://127.0.0.1:' + server.address().port + '/')).text();
      server.close();
      return [text, own];`);
    server.close();
    expect(found).toEqual(['hello', 'own']);
  });

  test('other processes are out of reach', async () => {
    await using sibling = imprison();
    await using prisoner = imprison();
    await sibling.run('return 1;');
    const found = await prisoner.run(`
      const { kill, ppid } = process;
      const sibling = ${sibling.child.pid};
      return {
        signalAgent: await outcome(() => kill(ppid, 0)),
        signalAll: await outcome(() => kill(-1, 0)),
        signalSibling: await outcome(() => kill(sibling, 0)),
        trace: call(101, 16, ppid),
        readMemory: call(310, ppid, 0, 0, 0, 0),
        agentLimits: call(302, ppid, 7, 0, 0),
        siblingPriority: call(141, 0, sibling, 10),
        siblingProcessors: call(203, sibling, 0, 0),
        mark: call(160, 15, 0),
        outlive: call(157, 1, 0),
        namespace: call(272, 0x10000000),
        ring: call(425, 8, 0),
        sharedMemory: call(29, 0, 4096, 0o1600),
        keys: call(250, 0),
        otherSystemCalls: call(0x40000000 + 39),
      };`);
    expect(found).toEqual({
      ...Object.fromEntries(Object.keys(found as object).map((name) => [name, 'EPERM'])),
      otherSystemCalls: 'ENOSYS',
    });
    expect(await sibling.run('return process.pid;')).toBe(sibling.child.pid);
  });

  test('nothing of the agent comes along', async () => {
    process.env['VEDETTE_SECRET'] = 'secret';
    await using prisoner = imprison();
    delete process.env['VEDETTE_SECRET'];
    const status = readFileSync(`/proc/${prisoner.child.pid}/status`, 'utf8');
    const found = (await prisoner.run(`
      const limits = load('node:fs').readFileSync('/proc/self/limits', 'utf8');
      return { env: Object.keys(process.env).sort(), argv: process.execArgv, limits, ppid: process.ppid };`)) as {
      limits: string;
    };
    expect(found).toMatchObject({ env: ['HOME', 'PATH', 'TMPDIR'], ppid: process.pid });
    expect(found.limits).toMatch(/core file size\s+0\s+0/);
    expect(found.limits).toMatch(/data size\s+4294967296\s+4294967296/);
    expect(found.limits).toMatch(/open files\s+4096\s+4096/);
    const after = readFileSync(`/proc/${prisoner.child.pid}/status`, 'utf8');
    expect(status).toBeTruthy();
    expect(after).toMatch(/CapEff:\s+0+\n/);
    expect(after).toMatch(/CapBnd:\s+0+\n/);
    expect(after).toMatch(/NoNewPrivs:\s+1/);
    expect(after).toMatch(/Seccomp:\s+2/);
    expect(readFileSync(`/proc/${prisoner.child.pid}/oom_score_adj`, 'utf8').trim()).toBe('900');
  });

  test('jobs of an agent that is root are users of their own, and the kernel counts their threads', async () => {
    const limits = { memoryBytes: 2 ** 30, processes: 20, diskBytes: 2 ** 20 };
    await using one = imprison({ limits });
    await using other = imprison({ profile: 'browser', limits });
    await using probe = imprison({ profile: 'probe' });
    const text = `return {
      ids: [process.getuid(), process.geteuid()], groups: process.getgroups(),
      threads: /Max processes +([0-9]+)/.exec(load('node:fs').readFileSync('/proc/self/limits', 'utf8'))[1],
      own: await outcome(() => load('node:fs').writeFileSync('own', '')) };`;
    type Found = { ids: number[]; groups: number[]; threads: string; own: string };
    const found = await Promise.all([one, other, probe].map(async (each) => (await each.run(text)) as Found));
    const [first, second, ours] = found.map(({ ids }) => ids[0]!);
    expect(found.map(({ own }) => own)).toEqual(['done', 'done', 'done']);
    expect(ours).toBe(process.getuid?.());
    if (ours !== 0) return expect(first).toBe(ours);
    expect(new Set([first, second, 0]).size).toBe(3);
    expect(found[0]).toEqual({
      ids: [first, first],
      groups: [expect.any(Number)],
      threads: '320',
      own: 'done',
    });
    const kept = await one.run(`
      const fs = load('node:fs');
      return [
        call(117, 0, 0, 0), call(119, 0, 0, 0),
        await outcome(() => fs.chownSync('own', 0, 0)),
        await outcome(() => fs.readdirSync('/proc/' + process.ppid + '/fd')),
      ];`);
    expect(kept).toEqual(['EPERM', 'EPERM', 'EPERM', 'EACCES']);
  });

  test('a probe pings behind the walls where the kernel lets it', async () => {
    await using prisoner = imprison({ profile: 'probe', may: ['ping'] });
    const found = await prisoner.run('return [call(41, 2, 2, 1), call(41, 2, 3, 1), call(41, 2, 3, 255)];');
    // Which of the two it is depends on the machine; never a raw socket of any other protocol.
    expect(found).toContain('done');
    expect((found as string[])[2]).toBe('EPERM');
  });
});
