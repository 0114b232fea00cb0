import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { createGunzip } from 'node:zlib';
import { Parser } from 'tar';
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import type { Job } from '../../src/contract/index.ts';
import { derivedId } from '../../src/kit/ids.ts';
import { cancelled, failedBy, startAgent, type ScriptedAgent } from '../rest/agent.ts';
import { API_KEY, startTestService, type TestService } from '../rest/service.ts';
import { freePort, listenOn } from '../support/targets/ports.ts';
import { runVedette, vedette } from './program.ts';

let service: TestService;
let place: { slug: string; key: string };
let agent: ScriptedAgent;
let env: Record<string, string>;

beforeAll(async () => {
  service = await startTestService();
  place = await service.location();
  agent = await startAgent(service.url, place.key);
  env = { VEDETTE_URL: service.url, VEDETTE_API_KEY: API_KEY };
});
afterAll(async () => {
  agent.leave();
  await service.stop();
});

/** A folder with files, and with git where they say what it ignores. */
function project(files: Record<string, string>): string {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-pw-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  if ('.gitignore' in files) execFileSync('git', ['init', '-q', '-b', 'trunk'], { cwd: folder });
  return folder;
}

const SHOP = {
  'package.json': '{"name":"shop-tests","version":"1.0.0","devDependencies":{"@playwright/test":"1.58.2"}}',
  'package-lock.json': '{"lockfileVersion":3}',
  'playwright.config.ts': 'export default {};',
  'tests/@cart.spec.ts': '// cart',
};

async function filesOf(job: Job): Promise<Record<string, string>> {
  const { sha256 } = job.spec['bundle'] as { sha256: string };
  const answer = await fetch(`${service.url}/agent/v1/bundles/${sha256}`, {
    headers: { authorization: `Bearer ${place.key}` },
  });
  const found: Record<string, string> = {};
  const parser = new Parser({
    onReadEntry: (entry) => {
      const chunks: Buffer[] = [];
      entry.on('data', (chunk: Buffer) => chunks.push(chunk));
      entry.on('end', () => (found[entry.path] = Buffer.concat(chunks).toString()));
    },
  });
  for await (const chunk of Readable.from(Buffer.from(await answer.arrayBuffer())).pipe(createGunzip())) {
    parser.write(chunk as Buffer);
  }
  parser.end();
  return found;
}

async function say(job: Job, text: string): Promise<void> {
  const { runId, token } = job;
  const answer = await fetch(`${service.url}/agent/v1/logs`, {
    method: 'POST',
    headers: { authorization: `Bearer ${place.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ runId, token, text }),
  });
  expect(answer.status).toBe(204);
}

/** Sends a file that the result's manifest announced. */
async function send(resultId: string, name: string, bytes: Buffer): Promise<void> {
  const headers = { authorization: `Bearer ${place.key}`, 'content-type': 'application/json' };
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  const opened = await fetch(`${service.url}/agent/v1/artifacts`, {
    method: 'POST',
    headers,
    body: JSON.stringify({ resultId, name, size: bytes.byteLength, contentType: 'text/plain', sha256 }),
  });
  const { artifactId } = (await opened.json()) as { artifactId: string };
  const url = `${service.url}/agent/v1/artifacts/${artifactId}`;
  const part = { ...headers, 'content-type': 'application/octet-stream', 'x-part-sha256': sha256 };
  await fetch(`${url}/parts/1`, { method: 'PUT', headers: part, body: Uint8Array.from(bytes) });
  expect(
    (await fetch(`${url}/complete`, { method: 'POST', headers: { authorization: headers.authorization } }))
      .status,
  ).toBe(200);
}

const manifestOf = (name: string, bytes: Buffer) => ({
  name,
  kind: 'report' as const,
  contentType: 'text/plain',
  size: bytes.byteLength,
  sha256: createHash('sha256').update(bytes).digest('hex'),
  state: 'pending' as const,
});

describe('vedette pw-test', () => {
  test('runs the project of the folder, prints what it prints and brings its files back', async () => {
    const folder = project({
      ...SHOP,
      '.gitignore': 'node_modules\nsecret.txt\n',
      'node_modules/@playwright/test/index.js': 'x',
      'secret.txt': 'ignored',
      'auth/state.json': '{}',
      'test-results/old.txt': 'old',
      'vedette-report/old.txt': 'old',
      'vedette-report/.vedette-report': '',
    });
    const args = [
      'pw-test',
      '--location',
      place.slug,
      '--env',
      'A=b=c',
      '--secret',
      'TOKEN',
      '--timeout',
      '60',
    ];
    const program = vedette(
      [...args, '--include', 'secret.*', '--', '-c', './playwright.config.ts', '--grep', "it's 1|2"],
      {
        cwd: folder,
        env: { ...env, TOKEN: 's' },
      },
    );
    const job = await agent.take();
    expect(job).toMatchObject({ checkType: 'PLAYWRIGHT', name: 'shop-tests', runSource: 'TEST_RECORD' });
    expect(job.spec).toMatchObject({
      testCommand: String.raw`npx playwright test --grep 'it'\''s 1|2'`,
      configPath: 'playwright.config.ts',
      workingDir: null,
      timeoutSeconds: 60,
      streamLogs: true,
      cacheHash: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
      environmentVariables: [
        { key: 'A', value: 'b=c', secret: false },
        { key: 'TOKEN', value: 's', secret: true },
      ],
    });
    expect(await filesOf(job)).toEqual({
      ...SHOP,
      '.gitignore': 'node_modules\nsecret.txt\n',
      'auth/state.json': '{}',
      'secret.txt': 'ignored',
    });

    await say(job, 'Running 1 test\n');
    await expect.poll(program.stdout, { timeout: 10_000 }).toContain('Running 1 test\n');
    const bytes = Buffer.from('the report');
    await agent.finish(job, { artifacts: [manifestOf('reports/report.json', bytes)] });
    await send(resultIdOf(job), 'reports/report.json', bytes);
    expect(await program.ended).toBe(0);
    expect(program.stdout()).toMatch(/PASSED[\s\S]* 1 files in vedette-report/);
    expect(readFileSync(join(folder, 'vedette-report/reports/report.json'), 'utf8')).toBe('the report');
    expect(() => readFileSync(join(folder, 'vedette-report/old.txt'))).toThrow('ENOENT');
    const { body } = await service.get<{ entries: object[] }>('/v1/test-sessions');
    expect(body.entries[0]).toMatchObject({
      name: 'shop-tests',
      branchName: 'trunk',
      projectId: 'shop-tests',
    });
  });

  test('takes the whole workspace, and ends with 1 when tests failed', async () => {
    const folder = project({
      'package.json': '{"workspaces":["packages/*"]}',
      'package-lock.json': '{}',
      'packages/lib/index.js': 'export {}',
      'packages/e2e/package.json': '{}',
      'packages/e2e/playwright.config.js': '',
      'node_modules/a/index.js': 'x',
    });
    const program = vedette(['pw-test', '--no-record'], { cwd: join(folder, 'packages/e2e'), env });
    const job = await agent.take();
    expect(job).toMatchObject({ name: 'e2e', runSource: 'TEST_NO_RECORD' });
    expect(job.spec).toMatchObject({ workingDir: 'packages/e2e' });
    expect(Object.keys(await filesOf(job)).toSorted()).toEqual([
      'package-lock.json',
      'package.json',
      'packages/e2e/package.json',
      'packages/e2e/playwright.config.js',
      'packages/lib/index.js',
    ]);
    await agent.finish(job, failedBy('TEST_FAILED', 'expected 1\nreceived 2', false));
    expect(await program.ended).toBe(1);
    expect(program.stdout()).toMatch(/FAILED\n {2}expected 1\n$/);
  });

  test('gives equal projects equal archives, and tells dependencies from code', async () => {
    const specOf = async (
      change: Record<string, string>,
    ): Promise<{ sha256: string; cacheHash: unknown }> => {
      const program = vedette(['pw-test'], { cwd: project({ ...SHOP, ...change }), env });
      const job = await agent.take();
      await agent.finish(job);
      expect(await program.ended).toBe(0);
      const { bundle, cacheHash } = job.spec as { bundle: { sha256: string }; cacheHash: unknown };
      return { sha256: bundle.sha256, cacheHash };
    };
    const first = await specOf({});
    expect(await specOf({})).toEqual(first);
    const code = await specOf({ 'tests/@cart.spec.ts': '// other' });
    expect(code.sha256).not.toBe(first.sha256);
    expect(code.cacheHash).toBe(first.cacheHash);
    const version = await specOf({ 'package.json': SHOP['package.json'].replace('1.0.0', '2.0.0') });
    expect(version.cacheHash).toBe(first.cacheHash);
    const lock = await specOf({ 'package-lock.json': '{"lockfileVersion":2}' });
    expect(lock.cacheHash).not.toBe(first.cacheHash);
  });

  test('cancels at Ctrl-C, and says what was found until then', async () => {
    const program = vedette(['pw-test', '--shards', '2'], { cwd: project(SHOP), env });
    const jobs = [await agent.take(), await agent.take()];
    await say(jobs[0]!, 'one\ntw');
    await say(jobs[1]!, 'other\n');
    await expect.poll(program.stdout, { timeout: 10_000 }).toContain('[2] other\n');
    expect(program.stdout()).toContain('[1] one\n');
    program.child.kill('SIGINT');
    await expect.poll(program.stdout, { timeout: 10_000 }).toContain('cancelling');
    for (const job of jobs) await agent.finish(job, cancelled);
    expect(await program.ended).toBe(1);
    expect(program.stdout()).toContain('CANCELLED');
  });

  test('does not wait for anything at a second Ctrl-C', async () => {
    const program = vedette(['pw-test'], { cwd: project(SHOP), env });
    const job = await agent.take();
    await say(job, 'begun\n');
    await expect.poll(program.stdout, { timeout: 10_000 }).toContain('begun\n');
    program.child.kill('SIGINT');
    await expect.poll(program.stdout, { timeout: 10_000 }).toContain('cancelling');
    // Copies of one Ctrl-C, which come within moments of each other, are not a second one.
    await delay(400);
    program.child.kill('SIGINT');
    expect(await program.ended).toBe(1);
    expect(program.stdout()).not.toContain('CANCELLED');
    await agent.finish(job, cancelled);
  });

  test('takes names as they are, what git does not know yet, and links inside', async () => {
    const folder = project({
      ...SHOP,
      '.gitignore': 'node_modules\n',
      'tests/große Prüfung 日本.spec.ts': '// ü',
    });
    symlinkSync('../playwright.config.ts', join(folder, 'tests/config link.ts'));
    execFileSync('git', ['add', 'package.json'], { cwd: folder });
    const program = vedette(['pw-test', '--name', 'Prüfung 1'], { cwd: folder, env });
    const job = await agent.take();
    expect(job.name).toBe('Prüfung 1');
    expect(Object.keys(await filesOf(job)).toSorted()).toEqual(
      [
        ...Object.keys(SHOP),
        '.gitignore',
        'tests/config link.ts',
        'tests/große Prüfung 日本.spec.ts',
      ].toSorted(),
    );
    await agent.finish(job);
    expect(await program.ended).toBe(0);
  });

  test('takes of a repository only the folder with the lock file, and no earlier report', async () => {
    const folder = project({ '.gitignore': '', 'other/large.bin': 'x' });
    const below = join(folder, 'e2e');
    mkdirSync(join(below, 'tests'), { recursive: true });
    for (const [path, text] of Object.entries(SHOP)) writeFileSync(join(below, path), text);
    mkdirSync(join(below, 'found'));
    writeFileSync(join(below, 'found/.vedette-report'), '');
    const program = vedette(['pw-test', '--report', 'found'], { cwd: below, env });
    const job = await agent.take();
    expect(Object.keys(await filesOf(job)).toSorted()).toEqual(Object.keys(SHOP).toSorted());
    await agent.finish(job);
    expect(await program.ended).toBe(0);
  });

  test.each([
    ['a report in a folder of somebody else', SHOP, ['--report', 'tests'], /tests has files that are not of/],
    ['a report over the project', SHOP, ['--report', '.'], /has files that are not of an earlier run/],
    ['a report in a file', SHOP, ['--report', 'package.json'], /is no folder \(ENOTDIR\)/],
    ['files outside', SHOP, ['--include', '../*.ts'], /^$/],
    ['no config', { ...SHOP, 'playwright.config.ts': '' }, ['--', '-c', 'other.ts'], /no such file in/],
    [
      'no config at all',
      { 'package.json': '{}', 'package-lock.json': '{}' },
      [],
      /has no playwright\.config\.ts, \.js, .*: go to the folder that has it/,
    ],
  ] as const)('%s: ends with 2 and one line', async (what, files, args, line) => {
    const folder = project(files);
    if (what === 'files outside') {
      writeFileSync(join(dirname(folder), 'vedette-outside.ts'), '');
      onTestFinished(() => rmSync(join(dirname(folder), 'vedette-outside.ts')));
    }
    const { code, stderr } = await runVedette(['pw-test', ...args], { cwd: folder, env });
    if (what === 'files outside') expect(stderr).toMatch(/--include: \.\.\/.* is not below/);
    else expect(stderr).toMatch(line);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(2);
  });

  test('a link that leads out is named', async () => {
    for (const target of ['../../outside.ts', '/etc/hostname']) {
      const folder = project(SHOP);
      symlinkSync(target, join(folder, 'tests/shared'));
      const { code, stderr } = await runVedette(['pw-test'], { cwd: folder, env });
      expect(stderr).toContain(`tests/shared is a link to ${target}, outside of the project: put a copy`);
      expect(code).toBe(2);
    }
  });

  test('what is too large is told with its size, the limit and the largest files', async () => {
    const folder = project(SHOP);
    writeFileSync(join(folder, 'film.mp4'), randomBytes(151_000_000));
    const { code, stderr } = await runVedette(['pw-test'], { cwd: folder, env });
    expect(stderr).toMatch(/the project has 151\.0 MB in 5 files, and more than the 150\.0 MB .* film\.mp4/);
    expect(code).toBe(2);
  });

  test('a lock file above belongs to a workspace or a repository, or is somebody else’s', async () => {
    const { 'package-lock.json': lock, ...rest } = SHOP;
    const below = Object.fromEntries(Object.entries(rest).map(([path, text]) => [`mine/${path}`, text]));
    const home = project({ ...below, 'package-lock.json': lock, 'keys.txt': 'secret' });
    const { code, stderr } = await runVedette(['pw-test'], { cwd: join(home, 'mine'), env });
    expect(stderr).toMatch(/neither .* nor a workspace or repository around it has a lock file/);
    expect(code).toBe(2);
  });

  test('a repository that git cannot read is not packed with all that it ignores', async () => {
    const folder = project(SHOP);
    mkdirSync(join(folder, '.git'));
    writeFileSync(join(folder, '.git/HEAD'), 'nonsense');
    const { code, stderr } = await runVedette(['pw-test'], { cwd: folder, env });
    expect(stderr).toMatch(/git cannot say which files of .* it ignores: fatal: /);
    expect(code).toBe(2);
  });

  test('Ctrl-C during the upload ends it', async () => {
    const folder = project(SHOP);
    const silent = createServer(() => {});
    const port = await listenOn(silent);
    onTestFinished(() => void silent.close());
    const program = vedette(['pw-test', '--location', 'x'], {
      cwd: folder,
      env: { ...env, VEDETTE_URL: `http://127.0.0.1:${port}` },
    });
    await expect.poll(program.stdout, { timeout: 10_000 }).toContain('files, ');
    program.child.kill('SIGINT');
    expect(await program.ended).toBe(1);
    expect(program.stdout()).toMatch(/cancelled\n$/);
    silent.closeAllConnections();
  });

  test('chooses its location, or asks for it', async () => {
    const none = await startTestService();
    onTestFinished(async () => none.stop());
    const own = { ...env, VEDETTE_URL: none.url };
    const run = async (args: string[] = []) =>
      runVedette(['pw-test', ...args], { cwd: project(SHOP), env: own });
    expect((await run()).stderr).toMatch(/the account has no private location: make one/);
    const first = await none.location('berlin');
    await none.location('paris');
    const { code, stderr } = await run();
    expect(stderr).toMatch(/say where with --location: berlin, paris/);
    expect(code).toBe(2);
    const worker = await startAgent(none.url, first.key);
    const program = vedette(['pw-test'], { cwd: project(SHOP), env: { ...own, VEDETTE_LOCATION: 'berlin' } });
    await worker.pass(1);
    expect(await program.ended).toBe(0);
    worker.leave();
  });

  test.each([
    [{}, [], /has neither a package\.json nor a Playwright config/],
    [{ 'package.json': '{}' }, [], /has a lock file: run the install of your package manager/],
    [SHOP, ['--', '--reporter=dot'], /--reporter is not passed on: set reporters in the Playwright config/],
    [
      SHOP,
      ['--', '--config', '/etc/playwright.config.ts'],
      /--config must name a file in or below this folder/,
    ],
    [SHOP, ['--grep', 'x'], /Unknown option '--grep'; flags of Playwright come behind --;/],
    [SHOP, ['--shards', '11'], /--shards="11": a whole number from 1 to 10 is allowed/],
    [SHOP, ['--env', 'A B'], /"A B" is no NAME=VALUE, nor a NAME/],
    [SHOP, ['--secret', 'NOT_SET'], /NOT_SET is not set here: set it, or say NOT_SET=VALUE/],
    [SHOP, ['--location', 'nowhere'], /runLocation: "nowhere" is neither a private location nor a region/],
  ] as const)('%j %j ends with 2 and one line', async (files, args, line) => {
    const { code, stderr } = await runVedette(['pw-test', ...args], { cwd: project(files), env });
    expect(stderr).toMatch(line);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(2);
  });

  test('wants to know its service', async () => {
    const cwd = project(SHOP);
    const none = await runVedette(['pw-test'], { cwd });
    expect(none).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/no service is known: set VEDETTE_URL/) as string,
    });
    const half = async (given: Record<string, string>) =>
      (await runVedette(['pw-test'], { cwd, env: given })).stderr;
    expect(await half({ VEDETTE_URL: service.url })).toMatch(/VEDETTE_URL is set, but not VEDETTE_API_KEY/);
    expect(await half({ VEDETTE_API_KEY: API_KEY })).toMatch(/VEDETTE_API_KEY is set, but not VEDETTE_URL/);
    expect(await half({ ...env, VEDETTE_URL: 'localhost:3000' })).toMatch(/VEDETTE_URL: must be an address/);
    const bad = await runVedette(['pw-test'], { cwd, env: { ...env, VEDETTE_API_KEY: 'vk_wrong' } });
    expect(bad.code).toBe(4);
    const away = await runVedette(['pw-test'], {
      cwd,
      env: { ...env, VEDETTE_URL: `http://127.0.0.1:${await freePort()}` },
    });
    expect(away).toMatchObject({
      code: 5,
      stderr: expect.stringMatching(/does not answer: ECONNREFUSED/) as string,
    });
  });
});

/** As the scripted agent calls the result of a job. */
const resultIdOf = ({ sequenceId, attempt, token }: Job): string => derivedId(sequenceId, attempt, token);
