import { sql } from 'kysely';
import { DEFAULT_TIMING, type Job, type RunResult, type Timing } from '../../src/contract/index.ts';
import { derivedId, newId } from '../../src/kit/ids.ts';
import { createQueue } from '../../src/service/queue/index.ts';
import type { LeasedAgent, NewSession, Queue, Store } from '../../src/service/ports.ts';
import type { Place } from '../support/databases.ts';
import { silentLog } from '../support/databases.ts';

/** One account on a fresh database, with what the queue's tests need around it. */
export class World {
  readonly store: Store;
  readonly queue: Queue;
  readonly timing: Timing;
  readonly accountId: string;
  #sessions = 0;

  private constructor(store: Store, timing: Timing, accountId: string) {
    this.store = store;
    this.timing = timing;
    this.accountId = accountId;
    this.queue = createQueue({ store, timing, log: silentLog });
  }

  static async on(place: Place, timing: Partial<Timing> = {}): Promise<World> {
    const store = await place.open();
    const accountId = newId();
    await store.db.insertInto('account').values({ id: accountId, name: 'test' }).execute();
    const world = new World(store, { ...DEFAULT_TIMING, settleMs: 0, ...timing }, accountId);
    await world.location('here');
    return world;
  }

  async location(slug: string): Promise<string> {
    const id = newId();
    const values = { id, account_id: this.accountId, name: slug, slug, icon: 'location', proxy_url: null };
    await this.store.db.insertInto('private_location').values(values).execute();
    return id;
  }

  /** A connected agent at `slug`. */
  async agent(slug = 'here', checkTypes: string[] = ['URL']): Promise<LeasedAgent> {
    const { db } = this.store;
    const { id: location_id } = await db
      .selectFrom('private_location')
      .select('id')
      .where('slug', '=', slug)
      .executeTakeFirstOrThrow();
    const agentId = newId();
    await db
      .insertInto('agent')
      .values({
        id: agentId,
        location_id,
        key_id: null,
        instance_id: newId(),
        session_id: newId(),
        epoch: 1,
        version: '1.0.0',
        check_types: checkTypes,
        slots: 100,
        free: 100,
        draining: false,
      })
      .execute();
    return { agentId, accountId: this.accountId, location: slug, checkTypes };
  }

  /** A session to start; each call another one. Without a retry strategy and double check. */
  session(change: Partial<NewSession> & { fields?: Record<string, unknown> } = {}): NewSession {
    const { fields = {}, ...rest } = change;
    return {
      accountId: this.accountId,
      checkId: newId(),
      checkType: 'URL',
      name: 'a check',
      runSource: 'SCHEDULER',
      lane: 1,
      scheduledAt: new Date(Date.now() - 60_000 + this.#sessions++),
      locations: ['here'],
      definition: { name: 'a check', retryStrategy: null, doubleCheck: false, ...fields },
      jobClass: 'light',
      timeoutMs: 30_000,
      ...rest,
    };
  }

  /** Starts one session and has it claimed and accepted. */
  async running(agent: LeasedAgent, session = this.session()): Promise<{ sessionId: string; job: Job }> {
    const [started] = await this.queue.start([session]);
    const [job] = await this.claimed(agent, 1);
    return { sessionId: started!.sessionId, job: job! };
  }

  async claimed(agent: LeasedAgent, limit: number): Promise<Job[]> {
    const jobs = await this.queue.claim(agent, 'light', limit);
    const { lost } = await this.queue.accept(agent.agentId, jobs);
    if (lost.length > 0) throw new Error('an accept was lost');
    return jobs;
  }

  async record(slug: string, ...results: RunResult[]): Promise<string[]> {
    const receipts = await this.queue.record({ accountId: this.accountId, slug }, results);
    return receipts.map(({ status }) => status);
  }

  async run(runId: number) {
    return this.store.db.selectFrom('run').selectAll().where('id', '=', runId).executeTakeFirstOrThrow();
  }

  async sessionRow(id: string) {
    return this.store.db
      .selectFrom('check_session')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
  }

  async results(sessionId: string) {
    return this.store.db
      .selectFrom('check_result')
      .selectAll()
      .where('session_id', '=', sessionId)
      .orderBy('attempts')
      .orderBy('location')
      .execute();
  }

  /** Moves a run's own instants into the past, as if `ms` had gone by for it. */
  async elapse(runId: number, ms: number): Promise<void> {
    const by = sql`${ms}::float8 * interval '1 millisecond'`;
    await sql`update run set not_before = not_before - ${by}, expires_at = expires_at - ${by},
      lease_until = lease_until - ${by}, hard_until = hard_until - ${by},
      first_started_at = first_started_at - ${by} where id = ${runId}`.execute(this.store.db);
  }

  /** One sweep of the reaper and of expiry. */
  async sweep(): Promise<void> {
    const stop = new AbortController();
    const loop = this.queue.loop(stop.signal);
    stop.abort();
    await loop;
  }

  close(): Promise<void> {
    return this.store.close();
  }
}

/** What an agent would send for `job`. */
export function resultOf(
  job: Job,
  flags: Partial<RunResult['flags']> = {},
  more: Partial<RunResult> = {},
): RunResult {
  const now = new Date().toISOString();
  return {
    resultId: derivedId(job.sequenceId, job.attempt, job.token),
    runId: job.runId,
    sequenceId: job.sequenceId,
    token: job.token,
    attempt: job.attempt,
    startedAt: now,
    stoppedAt: now,
    responseTimeMs: 12.5,
    flags: {
      hasFailures: false,
      hasErrors: false,
      isDegraded: false,
      isCancelled: false,
      overMaxResponseTime: false,
      ...flags,
    },
    errors: [],
    phases: { total: 12.5 },
    statusCode: 200,
    measured: { eventLoopDelayMs: 0.4, resolvedAddress: '127.0.0.1' },
    detail: { apiCheckResult: { statusCode: 200 } },
    ...more,
  };
}

export const failed = { hasFailures: true };
