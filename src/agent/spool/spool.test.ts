import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { runResult } from '../../../test/support/results.ts';
import { FatalError } from '../../kit/errors.ts';
import type { Reply } from '../ports.ts';
import { openSpool, Uploader, type Spool, type UploadTarget } from './index.ts';

const log = pino({ level: 'silent' });
let dir = '';
let open: Spool[] = [];
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'spool-'));
});
afterEach(() => {
  for (const spool of open) spool.close();
  open = [];
  rmSync(dir, { recursive: true, force: true });
});

function spoolIn(folder = dir): Spool {
  const spool = openSpool(folder, log);
  open.push(spool);
  return spool;
}
function reopen(spool: Spool): Spool {
  spool.close();
  open = open.filter((each) => each !== spool);
  return spoolIn();
}
const ids = (spool: Spool): string[] => Array.from(spool.pending(), ({ resultId }) => resultId);

describe('the spool', () => {
  test('keeps accepted results and its agent id over a restart, in order', async () => {
    const spool = spoolIn();
    const results = [runResult(), runResult(), runResult()];
    await Promise.all(results.map((result) => spool.accept(result, 1)));
    const again = reopen(spool);
    expect(again.agentId).toBe(spool.agentId);
    expect(ids(again)).toEqual(results.map(({ resultId }) => resultId));
    expect(JSON.parse(again.body(results[1]!.resultId)!)).toEqual(results[1]);
    expect(again.held()).toMatchObject(
      results.map(({ runId, token }) => ({ runId, token, phase: 'spooled' })),
    );
    expect(again.state).toMatchObject({ results: 3, dead: 0, full: false, writeError: null });
  });

  test('a result that no batch could carry keeps its verdict and loses its detail', async () => {
    const spool = spoolIn();
    const huge = runResult({ detail: { text: 'x'.repeat(2_000_000) } });
    await spool.accept(huge, 1);
    expect(JSON.parse(spool.body(huge.resultId)!)).toEqual({ ...huge, detail: {} });
  });

  test('results of one moment share a commit', async () => {
    const spool = spoolIn();
    const exec = vi.spyOn(DatabaseSync.prototype, 'exec');
    await Promise.all(Array.from({ length: 50 }, () => spool.accept(runResult(), 1)));
    expect(exec.mock.calls.filter(([sql]) => sql === 'commit')).toHaveLength(1);
    exec.mockRestore();
  });

  test('what the service has is gone; what it will never take is kept aside', async () => {
    const spool = spoolIn();
    const [one, two, three] = [runResult(), runResult(), runResult()];
    await Promise.all([one, two, three].map((result) => spool.accept(result, 1)));
    spool.settle([one.resultId, two.resultId], new Map([[two.resultId, 'unknown run']]));
    const again = reopen(spool);
    expect(ids(again)).toEqual([three.resultId]);
    expect(again.state).toMatchObject({ results: 1, dead: 1 });
  });

  test('a second agent in the same folder is refused with one line', () => {
    spoolIn();
    const second = (): Spool => openSpool(dir, log);
    expect(second).toThrow(FatalError);
    expect(second).toThrow(`another agent uses ${dir}; give each agent an AGENT_DATA_DIR of its own`);
  });

  test('a folder that cannot be made is a bad setting', () => {
    writeFileSync(join(dir, 'file'), '');
    expect(() => openSpool(join(dir, 'file', 'below'), log)).toThrow(/^AGENT_DATA_DIR=.*file\/below: /);
  });

  test.each([
    ['text', 'this is no database, and long enough to be read as one. '.repeat(200)],
    ['half a header', 'SQLite format 3\0'],
  ])('a damaged file is put aside, not overwritten: %s', (_, content) => {
    writeFileSync(join(dir, 'agent.db'), content);
    expect(spoolIn().state.results).toBe(0);
    expect(readdirSync(dir).some((name) => name.startsWith('agent.db.damaged-'))).toBe(true);
  });

  test('a file of a newer version is left alone', () => {
    const db = new DatabaseSync(join(dir, 'agent.db'));
    db.exec('pragma user_version = 99');
    db.close();
    expect(() => openSpool(dir, log)).toThrow('written by a newer version');
  });

  test('a new identity stays', () => {
    const spool = spoolIn();
    const before = spool.agentId;
    const after = spool.renameAgent();
    expect(after).not.toBe(before);
    expect(reopen(spool).agentId).toBe(after);
  });
});

interface Sent {
  ids: string[];
  headers: Record<string, string>;
}

describe('uploading', () => {
  const stop = new AbortController();
  let running: Promise<void> | undefined;
  let sent: Sent[] = [];
  let answers: ((ids: string[]) => Partial<Reply> & { receipts?: object[] })[] = [];
  let limits = { maxItems: 100, maxBytes: 2_000_000, flushMs: 0 };

  beforeEach(() => {
    sent = [];
    answers = [];
    limits = { maxItems: 100, maxBytes: 2_000_000, flushMs: 0 };
  });
  afterEach(async () => {
    await end?.();
    end = undefined;
    await running;
  });
  let end: (() => Promise<void>) | undefined;

  function upload(spool: Spool): Uploader {
    const target: UploadTarget = {
      post: async (_path, body, headers) => {
        const { zstdDecompressSync } = await import('node:zlib');
        const text = headers['content-encoding'] === 'zstd' ? zstdDecompressSync(body) : body;
        const { results } = JSON.parse(text.toString()) as { results: { resultId: string }[] };
        const batch = results.map(({ resultId }) => resultId);
        sent.push({ ids: batch, headers });
        const answer = answers.shift()?.(batch) ?? {};
        const receipts = answer.receipts ?? batch.map((resultId) => ({ resultId, status: 'stored' }));
        const reply = Buffer.from(JSON.stringify({ receipts }));
        return { status: 200, retryAfterMs: undefined, body: reply, ...answer };
      },
      batch: () => limits,
      clockOffsetMs: () => null,
      slots: () => 8,
    };
    const recorder = { upload: () => {} } as unknown as ConstructorParameters<typeof Uploader>[3];
    const uploader = new Uploader(spool, target, log, recorder);
    const own = new AbortController();
    running = uploader.run(AbortSignal.any([stop.signal, own.signal]));
    end = async () => own.abort();
    return uploader;
  }

  async function filled(count: number, more: object = {}): Promise<{ spool: Spool; all: string[] }> {
    const spool = spoolIn();
    const results = Array.from({ length: count }, () => runResult(more));
    await Promise.all(results.map((result) => spool.accept(result, 1)));
    return { spool, all: results.map(({ resultId }) => resultId) };
  }
  const emptied = (spool: Spool): Promise<void> =>
    vi.waitUntil(() => spool.state.results === 0).then(() => {});

  test('sends everything in batches of the size the service wants, compressed', async () => {
    const { spool, all } = await filled(25);
    limits.maxItems = 10;
    upload(spool);
    await emptied(spool);
    expect(sent.map((each) => each.ids.length)).toEqual([10, 10, 5]);
    expect(sent.flatMap((each) => each.ids)).toEqual(all);
    expect(sent[0]?.headers['content-encoding']).toBe('zstd');
  });

  test('a batch stays below the bytes the service takes', async () => {
    const { spool } = await filled(6, { detail: { text: 'x'.repeat(1000) } });
    limits.maxBytes = 4_000;
    upload(spool);
    await emptied(spool);
    expect(sent.map((each) => each.ids.length)).toEqual([2, 2, 2]);
  });

  test('stored, duplicate and late are done; rejected is put aside; retry is sent again', async () => {
    const { spool, all } = await filled(5);
    const statuses = ['stored', 'duplicate', 'late', 'rejected', 'retry'];
    answers.push((batch) => ({
      receipts: batch.map((resultId, i) => ({ resultId, status: statuses[i], reason: 'why', afterMs: 1 })),
    }));
    upload(spool);
    await emptied(spool);
    expect(sent.map((each) => each.ids)).toEqual([all, [all[4]]]);
    expect(spool.state.dead).toBe(1);
  });

  test('413 halves the batch until it fits; one that never fits is put aside', async () => {
    const { spool, all } = await filled(4);
    const huge = all[2]!;
    const judge = (batch: string[]) => ({ status: batch.includes(huge) ? 413 : 200 });
    answers = Array.from({ length: 20 }, () => judge);
    upload(spool);
    await emptied(spool);
    expect(spool.state.dead).toBe(1);
    expect(new Set(sent.flatMap((each) => each.ids))).toEqual(new Set(all));
  });

  test('a batch that the service cannot read costs only the result that is to blame', async () => {
    const { spool, all } = await filled(8);
    const bad = all[5]!;
    answers = Array.from({ length: 20 }, () => (batch: string[]) => ({
      status: batch.includes(bad) ? 400 : 200,
    }));
    upload(spool);
    await emptied(spool);
    expect(spool.state.dead).toBe(1);
  });

  test('503 waits as long as it is told, then sends again', async () => {
    const { spool } = await filled(1);
    answers.push(() => ({ status: 503, retryAfterMs: 80 }));
    upload(spool);
    const startMs = performance.now();
    await emptied(spool);
    expect(sent).toHaveLength(2);
    expect(performance.now() - startMs).toBeGreaterThan(75);
  });

  test('401 stops everything and keeps everything, until the agent is welcome again', async () => {
    const { spool } = await filled(2);
    answers.push(() => ({ status: 401 }));
    const uploader = upload(spool);
    await vi.waitUntil(() => uploader.refused);
    await spool.accept(runResult(), 0);
    expect(sent).toHaveLength(1);
    expect(spool.state.results).toBe(3);
    uploader.welcomed();
    await emptied(spool);
  });

  test('an answer that cannot be read settles nothing', async () => {
    const { spool } = await filled(1);
    answers.push(() => ({ body: Buffer.from('<html>'), retryAfterMs: 1 }));
    upload(spool);
    await emptied(spool);
    expect(sent).toHaveLength(2);
  });

  test('a scheduled result waits for company; one on demand, many, or a flush do not', async () => {
    const { spool } = await filled(1);
    limits.flushMs = 60_000;
    const uploader = upload(spool);
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(sent).toHaveLength(0);
    await spool.accept(runResult(), 0);
    await emptied(spool);
    await Promise.all([spool.accept(runResult(), 1), spool.accept(runResult(), 1)]);
    await emptied(spool);
    await spool.accept(runResult(), 2);
    await uploader.flush(AbortSignal.timeout(5_000));
    expect(sent.map((each) => each.ids.length)).toEqual([2, 2, 1]);
  });
});
