import { createHash, randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ArtifactUploader } from '../../src/agent/artifacts/index.ts';
import { ServiceClient } from '../../src/agent/connection/index.ts';
import type { CollectedFile } from '../../src/agent/ports.ts';
import { openSpool, type Spool } from '../../src/agent/spool/index.ts';
import type { RunResult } from '../../src/contract/index.ts';
import { startFakeArtifacts, type FakeArtifacts } from '../support/fake-artifacts.ts';
import { runResult } from '../support/results.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const PART = 1000;
const log = pino({ level: 'silent' });
const failed = {
  hasFailures: true,
  hasErrors: false,
  isDegraded: false,
  isCancelled: false,
  overMaxResponseTime: false,
};

let folder: ReturnType<typeof temporaryFolder>;
let service: FakeArtifacts;
let client: ServiceClient;
let stop: AbortController;
let running: Promise<void>[];
let spools: Spool[];

beforeEach(async () => {
  folder = temporaryFolder();
  service = await startFakeArtifacts(PART);
  const proxies = { httpProxy: undefined, httpsProxy: undefined, noProxy: '' };
  client = new ServiceClient({ serviceUrl: service.url, apiKey: 'pl_key', version: '1', proxies });
  stop = new AbortController();
  running = [];
  spools = [];
});
afterEach(async () => {
  stop.abort();
  await Promise.all(running);
  for (const spool of spools) spool.close();
  client.close();
  await service[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

function spoolIn(path = folder.path): Spool {
  const spool = openSpool(path, log);
  spools.push(spool);
  return spool;
}
function reopened(spool: Spool): Spool {
  spool.close();
  spools = spools.filter((each) => each !== spool);
  return spoolIn();
}

/** A result with these files, accepted; `null` stands for a file whose copy is missing. */
async function accepted(
  spool: Spool,
  files: Record<string, Buffer | null>,
  more: Partial<RunResult> = {},
): Promise<RunResult> {
  const result = runResult(more);
  const into = spool.folderOf(result.resultId);
  mkdirSync(into, { recursive: true });
  const collected = Object.entries(files).map(([name, bytes], i): CollectedFile => {
    const path = join(into, String(i));
    if (bytes !== null) writeFileSync(path, bytes);
    const sha256 = createHash('sha256')
      .update(bytes ?? '')
      .digest('hex');
    return { name, kind: 'file', contentType: 'text/plain', size: bytes?.length ?? 1, sha256, path };
  });
  const artifacts = collected.map(({ name, kind, contentType, size, sha256 }) => {
    return { name, kind, contentType, size, sha256, state: 'pending' as const };
  });
  await spool.accept({ ...result, artifacts }, 1, collected);
  return result;
}

function upload(spool: Spool): ArtifactUploader {
  const uploader = new ArtifactUploader(spool, client, log);
  running.push(uploader.run(stop.signal));
  return uploader;
}
const allSent = (spool: Spool) => vi.waitUntil(() => spool.state.files === 0, { timeout: 10_000 });
const bytes = (size: number): Buffer => randomBytes(size);

describe('uploading files', () => {
  test.each([0, 1, PART - 1, PART, PART + 1, 7 * PART + 3])('%i bytes arrive as they are', async (size) => {
    const spool = spoolIn();
    const content = bytes(size);
    const { resultId } = await accepted(spool, { 'a.bin': content });
    upload(spool);
    spool.settle([resultId]);
    await allSent(spool);
    expect(service.stored.get('a.bin')).toEqual(content);
    expect(service.requests.filter((each) => each.startsWith('part'))).toHaveLength(Math.ceil(size / PART));
    expect(service.mostAtOnce).toBeLessThanOrEqual(3);
    expect(spool.state).toMatchObject({ files: 0, bytes: 0 });
    await vi.waitUntil(() => readdirSync(join(folder.path, 'artifacts')).length === 0);
  });

  test('nothing leaves before the service has the result; what failed goes first', async () => {
    const spool = spoolIn();
    upload(spool);
    const passing = await accepted(spool, { passed: bytes(10) });
    const failing = await accepted(spool, { failed: bytes(10) }, { flags: failed });
    expect(service.requests).toEqual([]);
    spool.settle([passing.resultId, failing.resultId]);
    await allSent(spool);
    expect([...service.stored.keys()]).toEqual(['failed', 'passed']);
  });

  test('a connection that breaks in a part costs that part alone', async () => {
    const spool = spoolIn();
    const content = bytes(20 * PART);
    const { resultId } = await accepted(spool, { big: content });
    let cuts = 2;
    service.trouble = (what) => (what === 'part 14' && cuts-- > 0 ? 'cut' : undefined);
    upload(spool);
    spool.settle([resultId]);
    await allSent(spool);
    expect(service.stored.get('big')).toEqual(content);
    expect(service.receivedBytes).toBeLessThanOrEqual(content.length + 6 * PART);
  });

  test('an agent that ends in the middle goes on with the missing parts after its next start', async () => {
    const first = spoolIn();
    const content = bytes(10 * PART);
    const { resultId } = await accepted(first, { big: content });
    service.trouble = (what) => (what === 'part 6' ? 'hang' : undefined);
    const uploader = new ArtifactUploader(first, client, log);
    const ended = new AbortController();
    const run = uploader.run(ended.signal);
    first.settle([resultId]);
    await vi.waitUntil(() => service.requests.includes('part 10'));
    ended.abort();
    await run;
    service.trouble = undefined;
    service.requests.length = 0;
    const again = reopened(first);
    expect(again.state).toMatchObject({ results: 0, files: 1 });
    upload(again);
    await allSent(again);
    expect(service.stored.get('big')).toEqual(content);
    expect(service.requests.filter((each) => each.startsWith('part')).length).toBeLessThanOrEqual(2);
    expect(service.requests).toContain('part 6');
  });

  test('a part that got lost or damaged on the way is sent again', async () => {
    const spool = spoolIn();
    const content = bytes(3 * PART);
    const { resultId } = await accepted(spool, { a: content });
    let damaged = false;
    let lost = false;
    service.trouble = (what) => {
      if (what === 'part 2' && !damaged) {
        damaged = true;
        return 422;
      }
      if (what === 'complete' && !lost) {
        lost = true;
        service.losePart('a', 1);
      }
      return undefined;
    };
    upload(spool);
    spool.settle([resultId]);
    await allSent(spool);
    expect(service.stored.get('a')).toEqual(content);
  });

  test.each([404, 409, 413, 422, 400])(
    '%i to the announcement: the file is given up, the next one sent',
    async (status) => {
      const spool = spoolIn();
      const bad = await accepted(spool, { bad: bytes(10) }, { flags: failed });
      const good = await accepted(spool, { good: bytes(10) });
      let opened = 0;
      service.trouble = (what) => (what === 'open' && opened++ === 0 ? status : undefined);
      upload(spool);
      spool.settle([bad.resultId, good.resultId]);
      await allSent(spool);
      expect([...service.stored.keys()]).toEqual(['good']);
    },
  );

  test('a file that fails for ever does not hold up the others, and is kept', async () => {
    const spool = spoolIn();
    const bad = await accepted(spool, { bad: bytes(2 * PART) }, { flags: failed });
    const good = await accepted(spool, { good: bytes(10) });
    service.trouble = (what) => (what === 'part 2' ? 500 : undefined);
    upload(spool);
    spool.settle([bad.resultId, good.resultId]);
    await vi.waitUntil(() => service.stored.has('good'), { timeout: 10_000 });
    expect(spool.state.files).toBe(1);
  });

  test('a copy that is gone is forgotten', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { gone: null, here: bytes(5) });
    upload(spool);
    spool.settle([resultId]);
    await allSent(spool);
    expect([...service.stored.keys()]).toEqual(['here']);
  });

  test('a refused key stops everything and keeps everything, until the agent is welcome again', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { a: bytes(5), b: bytes(5) });
    service.trouble = () => 401;
    const uploader = upload(spool);
    spool.settle([resultId]);
    await vi.waitUntil(() => service.requests.length === 1);
    await uploader.flush(AbortSignal.timeout(5000));
    expect(service.requests).toEqual(['open']);
    expect(spool.state.files).toBe(2);
    service.trouble = undefined;
    uploader.welcomed();
    await allSent(spool);
  });

  test('flush gives up a service that cannot be reached, long before it must', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { a: bytes(5) });
    service.trouble = () => 500;
    const uploader = upload(spool);
    spool.settle([resultId]);
    await uploader.flush(AbortSignal.timeout(15_000));
    expect(service.requests.length).toBeGreaterThan(2);
    expect(spool.state.files).toBe(1);
  });

  test('flush waits for every file, and no longer than it may', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { a: bytes(5), b: bytes(3 * PART) });
    const uploader = upload(spool);
    spool.settle([resultId]);
    await uploader.flush(AbortSignal.timeout(10_000));
    expect([...service.stored.keys()].sort()).toEqual(['a', 'b']);
    const late = await accepted(spool, { c: bytes(5) });
    service.trouble = () => 'hang';
    spool.settle([late.resultId]);
    await uploader.flush(AbortSignal.timeout(50));
    expect(spool.state.files).toBe(1);
  });
});

describe('files in the spool', () => {
  test('stay with their result over a restart; orphans go', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { a: bytes(5) });
    const orphan = spool.folderOf('orphan');
    mkdirSync(orphan);
    writeFileSync(join(orphan, '0'), 'left by a crash');
    const again = reopened(spool);
    expect(existsSync(orphan)).toBe(false);
    expect(readdirSync(again.folderOf(resultId))).toEqual(['0']);
    expect(again.state.files).toBe(1);
    expect([...again.dueFiles()]).toEqual([]);
    again.settle([resultId]);
    const [file] = reopened(again).dueFiles();
    expect(file).toMatchObject({ resultId, name: 'a', size: 5, contentType: 'text/plain' });
  });

  test('go with a result that the service will never take', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { a: bytes(5) });
    spool.settle([resultId], new Map([[resultId, 'why']]));
    expect(spool.state.files).toBe(0);
    await vi.waitUntil(() => !existsSync(spool.folderOf(resultId)));
    expect(reopened(spool).state.files).toBe(0);
  });

  test('make room when the spool is full: those of passed runs first, results never', async () => {
    const spool = spoolIn();
    const large = 150_000_000;
    const artifact = {
      kind: 'file',
      contentType: 'text/plain',
      size: large,
      sha256: '0'.repeat(64),
    } as const;
    const held: RunResult[] = [];
    for (const flags of [failed, undefined, failed, failed]) {
      const artifacts = [{ ...artifact, name: 'trace.zip', state: 'pending' as const }];
      const result = runResult({ artifacts, ...(flags === undefined ? {} : { flags }) });
      const path = join(spool.folderOf(result.resultId), '0');
      await spool.accept(result, 1, [{ ...artifact, name: 'trace.zip', path }]);
      held.push(result);
    }
    expect(spool.state).toMatchObject({ results: 4, files: 2, full: false });
    const manifests = held.map(({ resultId }) => JSON.parse(spool.body(resultId)!).artifacts[0].state);
    expect(manifests).toEqual(['refused', 'refused', 'pending', 'pending']);
    const again = reopened(spool);
    expect(again.state).toMatchObject({ results: 4, files: 2 });
    expect(JSON.parse(again.body(held[1]!.resultId)!).artifacts).toEqual([
      {
        ...artifact,
        name: 'trace.zip',
        sha256: null,
        state: 'refused',
        reason: 'it was given up, since the spool is full',
      },
    ]);
  });

  test('are given up after a day', async () => {
    const spool = spoolIn();
    const { resultId } = await accepted(spool, { a: bytes(5) });
    spool.settle([resultId]);
    const later = Date.now() + 25 * 3_600_000;
    vi.spyOn(Date, 'now').mockReturnValue(later);
    expect([...spool.dueFiles()]).toEqual([]);
    vi.restoreAllMocks();
    expect(spool.state.files).toBe(0);
    rmSync(spool.folderOf(resultId), { recursive: true, force: true });
  });
});
