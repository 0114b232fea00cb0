import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { backUp } from '../../src/service/store/embedded/backup.ts';
import { openEmbedded } from '../../src/service/store/embedded/engine.ts';
import type { Store } from '../../src/service/ports.ts';
import { engines, PostgresServer, silentLog, type Place } from '../support/databases.ts';
import { resultOf, World } from './fixture.ts';

const WRITER = new URL('./writer.ts', import.meta.url).pathname;

interface Writer {
  child: ChildProcess;
  /** Ids whose receipts said `stored`. */
  acknowledged: string[];
  errors: string;
}

function startWriter(place: Place, before: string[] = []): Writer {
  const program = [...before, process.execPath, WRITER, place.dataDir, place.databaseUrl ?? ''].filter(
    Boolean,
  );
  const child = spawn(program[0]!, program.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] });
  const writer: Writer = { child, acknowledged: [], errors: '' };
  let rest = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    writer.acknowledged.push(...lines.filter((line) => line !== 'ready'));
  });
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (writer.errors += text));
  return writer;
}

async function kill(writer: Writer): Promise<void> {
  const closed = once(writer.child, 'close');
  writer.child.kill('SIGKILL');
  await closed;
}

async function missingOf(store: Store, ids: readonly string[]): Promise<string[]> {
  const rows = await store.db.selectFrom('check_result').select('id').execute();
  const kept = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => !kept.has(id));
}

describe.each(engines())('durability on $name', (engine) => {
  beforeAll(() => engine.start());
  afterAll(() => engine.stop());

  test('kill -9 during writes loses nothing that was acknowledged', async () => {
    const place = await engine.fresh();
    const acknowledged: string[] = [];
    for (const enough of [50, 130]) {
      const writer = startWriter(place);
      await expect.poll(() => writer.acknowledged.length, { timeout: 40_000 }).toBeGreaterThan(enough);
      await kill(writer);
      acknowledged.push(...writer.acknowledged);
    }
    const store = await place.open();
    expect(await missingOf(store, acknowledged)).toEqual([]);
    await store.close();
  });
});

describe('the embedded engine', () => {
  const engine = engines()[0]!;
  beforeAll(() => engine.start());
  afterAll(() => engine.stop());

  test('refuses a second process with exit code 78 and one line that names the folder', async () => {
    const place = await engine.fresh();
    const store = await place.open();
    const second = startWriter(place);
    const [code] = (await once(second.child, 'close')) as [number];
    expect(code).toBe(78);
    expect(second.errors).toBe(
      `The data folder ${place.dataDir} is in use by another process: stop that one, or choose another folder\n`,
    );
    expect(await store.ping()).toBe(true);
    await store.close();
  });

  test('gives the folder back when its process is killed', async () => {
    const place = await engine.fresh();
    const writer = startWriter(place);
    await expect.poll(() => writer.acknowledged.length, { timeout: 40_000 }).toBeGreaterThan(0);
    await expect(place.open()).rejects.toMatchObject({ exitCode: 78 });
    await kill(writer);
    await (await place.open()).close();
  });

  test('opens after a first start that was cut off, and beside the left-overs of a killed one', async () => {
    const place = await engine.fresh();
    const folder = join(place.dataDir, 'store');
    await cp(folder, `${folder}.new`, { recursive: true });
    await rm(join(`${folder}.new`, 'global'), { recursive: true });
    await rm(folder, { recursive: true });
    const store = await place.open();
    expect(await store.ping()).toBe(true);
    expect(existsSync(`${folder}.new`)).toBe(false);
    await store.close();
  });

  test('says in one line that a folder is not a database', async () => {
    const place = await engine.fresh();
    await rm(join(place.dataDir, 'store', 'global'), { recursive: true });
    await expect(place.open()).rejects.toMatchObject({
      exitCode: 78,
      message: expect.stringContaining(join(place.dataDir, 'store')),
    });
  });

  test('calls fsync for its commits, as the system sees it', async () => {
    if (!hasStrace()) {
      console.log('fsync under strace skipped: strace cannot trace here (Debian: apt install strace)');
      return;
    }
    const place = await engine.fresh();
    const trace = join(place.dataDir, 'trace');
    const writer = startWriter(place, ['strace', '-f', '-qq', '-e', 'trace=fsync,fdatasync', '-o', trace]);
    await expect.poll(() => writer.acknowledged.length, { timeout: 50_000 }).toBeGreaterThan(50);
    const batches = writer.acknowledged.length / 10;
    // strace ends with its child, which it does not kill when it is killed itself.
    const [pid] = readFileSync(trace, 'utf8').split(' ', 1);
    const closed = once(writer.child, 'close');
    process.kill(Number(pid), 'SIGKILL');
    await closed;
    const calls = readFileSync(trace, 'utf8').match(/fsync\(\d+\)/g)?.length ?? 0;
    // Four commits per batch: start, claim, accept, record.
    expect(calls).toBeGreaterThanOrEqual(4 * batches);
  });

  test('a backup is a database, and only the newest three are kept', async () => {
    const place = await engine.fresh();
    const world = await World.on(place);
    const { job } = await world.running(await world.agent());
    await world.record('here', resultOf(job));
    await world.close();

    const backups = join(place.dataDir, 'backup');
    const opened = await openEmbedded(place.dataDir, silentLog);
    const from = { pool: opened.pool, folder: join(place.dataDir, 'store'), backups, log: silentLog };
    const made = [];
    for (let n = 0; n < 4; n++) made.push(await backUp(from));
    await opened.close();
    expect(readdirSync(backups).map((name) => join(backups, name))).toEqual(made.slice(1));

    await rm(join(place.dataDir, 'store'), { recursive: true });
    await cp(made[3]!, join(place.dataDir, 'store'), { recursive: true });
    const restored = await place.open();
    expect(await missingOf(restored, [resultOf(job).resultId])).toEqual([]);
    await restored.close();
  });
});

describe.each(engines().filter((engine) => engine instanceof PostgresServer))(
  'an outage of $name',
  (engine) => {
    beforeAll(() => engine.start());
    afterAll(() => engine.stop());

    test('fails statements, not the service; results sent meanwhile are answered `retry`', async () => {
      const world = await World.on(await engine.fresh());
      const agent = await world.agent();
      const { sessionId, job } = await world.running(agent);
      const stop = new AbortController();
      const loop = world.queue.loop(stop.signal);

      const answers = new Set<string>();
      const restarted = engine.restart();
      const result = resultOf(job);
      for (;;) {
        const [status] = await world.record('here', result);
        answers.add(status!);
        if (status !== 'retry') break;
      }
      await restarted;
      await expect.poll(() => world.store.ping(), { timeout: 20_000 }).toBe(true);
      // Whether the last commit before the outage happened is known only by asking again.
      expect(await world.record('here', result)).toEqual(['duplicate']);
      expect(await world.results(sessionId)).toHaveLength(1);
      expect(answers.has('stored') || answers.has('duplicate')).toBe(true);

      const heard: string[] = [];
      world.store.onWake((topic) => heard.push(topic));
      const other = await world.running(agent);
      await expect.poll(() => heard).toContain(`session:${other.sessionId}`);
      stop.abort();
      await loop;
      await world.close();
    });

    test('wake-ups reach other processes, also after an outage', async () => {
      const place = await engine.fresh();
      const [one, two] = [await place.open(), await place.open()];
      const heard = new Set<string>();
      two.onWake((topic) => heard.add(topic));
      const arrives = async (topic: `key:${string}`) =>
        expect.poll(() => (one.wake(topic), heard.has(topic)), { timeout: 20_000, interval: 100 }).toBe(true);
      await arrives('key:before');
      await engine.restart();
      await arrives('key:after');
      await one.close();
      await two.close();
    });
  },
);

function hasStrace(): boolean {
  try {
    execFileSync('strace', ['-f', '-o', '/dev/null', 'true'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
