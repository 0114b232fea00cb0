import type { JobClass } from '../../checks/index.ts';
import { jitter, sleep, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { derivedId } from '../../kit/ids.ts';
import { MAX_FRAME_BYTES, type Job, type RunResult } from '../../contract/index.ts';
import type { ServiceContext } from '../ports.ts';
import { encode } from './carrier.ts';
import { CLASSES } from './credit.ts';
import type { AgentMetrics } from './metrics.ts';
import type { Sessions } from './registry.ts';
import type { AgentSession } from './session.ts';

/** Jobs of one claim: bounds what is held in memory and sent at once. */
const MAX_CLAIM = 100;

/**
 * Gives the runs of each location to its agents that have credit: on wake-ups, on new credit, and by
 * looking every second or two, which is what makes it certain. Each class of runs by itself.
 *
 * Fair shares: the agent with most room goes first. While others could take work too, each claims one
 * run, then two, four, …: a short queue spreads over all agents, a long one costs few statements.
 */
export class Offers {
  readonly #context: ServiceContext;
  readonly #sessions: Sessions;
  readonly #metrics: AgentMetrics;
  /** Locations under way; true when they were wanted again meanwhile. */
  readonly #busy = new Map<string, boolean>();

  constructor(context: ServiceContext, sessions: Sessions, metrics: AgentMetrics) {
    this.#context = context;
    this.#sessions = sessions;
    this.#metrics = metrics;
  }

  /** Something to claim or somebody to claim it appeared at `<accountId>/<slug>`. */
  wanted(place: string): void {
    if (this.#sessions.countAt(place) === 0) return;
    if (this.#busy.has(place)) this.#busy.set(place, true);
    else void this.#serve(place);
  }

  /** Looks at every location from time to time, until the signal aborts. */
  async loop(everyMs: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      await sleep(jitter(everyMs, 0.33), signal);
      for (const place of this.#sessions.locations()) this.wanted(place);
    }
  }

  /** One location at a time: two rounds at once would claim twice for the same credit. */
  async #serve(place: string): Promise<void> {
    try {
      do {
        this.#busy.set(place, false);
        for (const jobClass of CLASSES) await this.#distribute(place, jobClass);
      } while (this.#busy.get(place) === true);
    } catch (error) {
      this.#context.log.warn({ place, error: messageOf(error) }, 'claim failed');
    } finally {
      this.#busy.delete(place);
    }
  }

  async #distribute(place: string, jobClass: JobClass): Promise<void> {
    const idle = new Idle();
    for (let share = 1; ; share *= 2) {
      const takers = inTurn(this.#sessions.at(place), jobClass).filter(({ skills }) => !idle.has(skills));
      if (takers.length === 0) return;
      const alone = takers.length === 1 && this.#context.store.kind === 'embedded';
      for (const session of takers) {
        const limit = Math.min(session.room(jobClass), MAX_CLAIM, alone ? MAX_CLAIM : share);
        if (limit === 0 || idle.has(session.skills)) continue;
        const jobs = await this.#context.queue.claim(session.leased, jobClass, limit);
        if (jobs.length < limit) idle.add(session.skills);
        if (jobs.length > 0) await this.#offer(session, jobClass, jobs);
      }
    }
  }

  async #offer(session: AgentSession, jobClass: JobClass, jobs: readonly Job[]): Promise<void> {
    if (session.ended) return this.#context.queue.decline(session.agentId, jobs, false);
    const frame = encode('offer', { jobs: [...jobs] });
    if (Buffer.byteLength(frame) <= MAX_FRAME_BYTES) {
      session.offering(jobClass, jobs);
      session.carrier.send(frame);
      this.#metrics.jobs.inc({ event: 'offered' }, jobs.length);
      return;
    }
    if (jobs.length === 1) return this.#refuse(session, jobs[0]!);
    const half = Math.ceil(jobs.length / 2);
    await this.#offer(session, jobClass, jobs.slice(0, half));
    await this.#offer(session, jobClass, jobs.slice(half));
  }

  /** No agent can be sent this job: it ends as our error, with the reason in its result. */
  async #refuse(session: AgentSession, job: Job): Promise<void> {
    this.#metrics.jobs.inc({ event: 'too_large' });
    this.#context.log.warn({ runId: job.runId, checkId: job.checkId }, 'job too large to send');
    const { accountId, location } = session.holder;
    await this.#context.queue.record({ accountId, slug: location }, [tooLarge(job)]);
  }
}

/**
 * Skills for which the queue has no more: two agents got less than they asked for. One is not enough,
 * since a run may be kept from one agent; asking all of 1,000 idle agents would be a load of its own.
 */
class Idle {
  readonly #once = new Set<string>();
  readonly #twice = new Set<string>();

  add(skills: string): void {
    (this.#once.has(skills) ? this.#twice : this.#once).add(skills);
  }

  has(skills: string): boolean {
    return this.#twice.has(skills);
  }
}

/** Agents with room for the class, the one with most of it first; equal ones in a random order. */
function inTurn(sessions: readonly AgentSession[], jobClass: JobClass): AgentSession[] {
  return sessions
    .map((session) => ({ session, room: session.room(jobClass) / session.slots, lot: Math.random() }))
    .filter(({ room }) => room > 0)
    .toSorted((a, b) => b.room - a.room || a.lot - b.lot)
    .map(({ session }) => session);
}

function tooLarge({ runId, token, attempt, sequenceId }: Job): RunResult {
  const now = new Date(wallMs()).toISOString();
  const message = `The check's definition is too large to be sent to an agent (over ${MAX_FRAME_BYTES} bytes).`;
  return {
    resultId: derivedId(sequenceId, attempt, token),
    runId,
    token,
    attempt,
    sequenceId,
    startedAt: now,
    stoppedAt: now,
    responseTimeMs: null,
    flags: {
      hasFailures: false,
      hasErrors: true,
      isDegraded: false,
      isCancelled: false,
      overMaxResponseTime: false,
    },
    errors: [{ code: 'JOB_TOO_LARGE', message, network: false }],
    phases: {},
    statusCode: null,
    measured: { eventLoopDelayMs: 0, resolvedAddress: null },
    detail: {},
  };
}
