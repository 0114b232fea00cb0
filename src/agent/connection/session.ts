import { PROTOCOL, type FromAgent, type RunRef, type Welcome } from '../../contract/index.ts';
import type { z } from 'zod';
import { jitter, sleep, wallMs } from '../../kit/clock.ts';
import { newId } from '../../kit/ids.ts';
import type { Log } from '../../kit/log.ts';
import type { Recorder, ReleaseReason, RunHolder } from '../ports.ts';
import type { ClockOffset } from './clock-offset.ts';
import { BROKEN, ENDED, type Closed, type Link } from './link.ts';
import { readMessage, type Incoming } from './read-message.ts';

export type WelcomeData = z.infer<typeof Welcome>['d'];

type Body<T extends FromAgent['t']> = Extract<FromAgent, { t: T }>['d'];

const WELCOME_TIMEOUT_MS = 10_000;
/** Renewals and acceptances that were never answered are forgotten beyond this many. */
const OPEN_QUESTIONS = 256;

/** What outlives a session. */
export interface SessionContext {
  holder: RunHolder;
  recorder: Recorder;
  log: Log;
  offset: ClockOffset;
  /** Milliseconds until the drain deadline; null while not draining. */
  drainLeftMs(): number | null;
  onWelcome(welcome: WelcomeData): void;
  onUpgrade(minAgentVersion: string): void;
}

/** One welcome and what follows on its link, until the link ends. */
export class Session {
  readonly #context: SessionContext;
  readonly #welcomed = Promise.withResolvers<void>();
  /** Sending time, on the lease clock, of each message that a `lease` answers; by message id. */
  readonly #asked = new Map<string, number>();
  #link: Link | undefined;
  #welcome: WelcomeData | undefined;
  #end = Promise.withResolvers<Closed>();
  #renewSoon = Promise.withResolvers<void>();
  #saidBye = false;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  get isWelcomed(): boolean {
    return this.#welcome !== undefined;
  }

  /** Serves the link until it ends or `signal` aborts. */
  async live(link: Link, signal: AbortSignal): Promise<Closed> {
    this.#link = link;
    const over = new AbortController();
    const inner = AbortSignal.any([signal, over.signal]);
    const aborted = new Promise<Closed>((resolve) =>
      inner.addEventListener('abort', () => resolve({ code: ENDED, reason: 'stopped' }), { once: true }),
    );
    const late = sleep(WELCOME_TIMEOUT_MS, inner).then(
      () => (this.isWelcomed ? this.#end.promise : { code: BROKEN, reason: 'no welcome within 10 s' }),
      () => aborted,
    );
    void this.#welcomed.promise.then(() => this.#renewLoop(inner)).catch(() => {});
    const closed = await Promise.race([link.closed, this.#end.promise, aborted, late]);
    over.abort(new Error('session over'));
    link.close();
    return closed;
  }

  /** Takes what came over the link, parsed as JSON only. */
  receive(raw: unknown): void {
    const message = readMessage(raw);
    if ('ignored' in message) {
      this.#context.recorder.messageIgnored(message.ignored);
      return;
    }
    const expected = this.#welcome?.epoch;
    if (message.t !== 'welcome' && (expected === undefined || (message.ep ?? expected) !== expected)) {
      if (message.t !== 'refused') {
        this.#context.recorder.messageIgnored('stale_epoch');
        return;
      }
    }
    this.#handle(message);
  }

  /** Free places, absolute. */
  sendCredit(): void {
    this.#send('ready', this.#credit());
  }
  sendRelease(runs: readonly RunRef[], reason: ReleaseReason): void {
    if (runs.length > 0) this.#send('release', { runs: [...runs], reason });
  }
  sendDrain(deadlineMs: number): void {
    this.#send('drain', { deadlineMs });
  }
  sendBye(reason: string): void {
    this.#send('bye', { reason });
    this.#saidBye = true;
  }
  renewNow(): void {
    this.#renewSoon.resolve();
  }

  #handle(message: Incoming): void {
    const { holder } = this.#context;
    switch (message.t) {
      case 'welcome':
        this.#onWelcome(message.d);
        break;
      case 'offer':
        this.#onOffer(message.d.jobs);
        break;
      case 'lease':
        if (message.d.clock !== undefined) this.#context.offset.add(message.d.clock, wallMs());
        this.#confirm(message.re, message.d.ok);
        for (const run of message.d.lost) holder.lost([run], run.why);
        holder.cancelled(message.d.cancel);
        break;
      case 'cancel':
        holder.cancelled(message.d.runs);
        break;
      case 'goaway':
        this.#end.resolve({ code: ENDED, reason: message.d.why, retryAfterMs: message.d.retryAfterMs });
        break;
      case 'upgrade':
        this.#context.onUpgrade(message.d.minAgentVersion);
        break;
      case 'ok':
        break;
      case 'refused':
        // Any refusal means that the two ends no longer agree about this session: begin a new one.
        this.#end.resolve({ code: BROKEN, reason: `${message.d.why} ${message.d.detail ?? ''}`.trim() });
        break;
    }
  }

  #onWelcome(welcome: WelcomeData): void {
    if (this.#welcome !== undefined) return;
    if (welcome.protocol < PROTOCOL.min || welcome.protocol > PROTOCOL.max) {
      this.#end.resolve({ code: 4426, reason: `the service chose protocol ${welcome.protocol}` });
      return;
    }
    this.#welcome = welcome;
    this.#context.offset.add(welcome.clock, wallMs());
    for (const run of welcome.drop) this.#context.holder.lost([run], run.why);
    this.#context.onWelcome(welcome);
    this.#welcomed.resolve();
    const drainLeftMs = this.#context.drainLeftMs();
    if (drainLeftMs !== null) this.sendDrain(drainLeftMs);
    this.sendCredit();
  }

  #onOffer(jobs: readonly unknown[]): void {
    const { holder } = this.#context;
    const { accepted, declined } = holder.offered(jobs, this.#welcome!.leaseMs);
    const sentAtMs = holder.now();
    if (accepted.length > 0) this.#expectLease(this.#send('accept', { runs: accepted }), sentAtMs);
    if (declined.length > 0) this.#send('decline', { runs: declined });
  }

  /** Each renewal is the inventory of what this agent holds. */
  async #renewLoop(signal: AbortSignal): Promise<void> {
    let first = this.#context.holder.held().length > 0;
    while (!signal.aborted) {
      if (!first) await this.#untilRenewal(signal);
      first = false;
      const { holder } = this.#context;
      const sentAtMs = holder.now();
      const id = this.#send('renew', {
        running: holder.held(),
        ...this.#credit(),
        clock: { t0: wallMs() },
      });
      this.#expectLease(id, sentAtMs);
    }
  }

  #credit(): Body<'ready'> {
    const { holder } = this.#context;
    const freeByClass = {
      script: holder.free('script'),
      browser: holder.free('browser'),
      suite: holder.free('suite'),
    };
    return { free: holder.free('light'), freeByClass };
  }

  #expectLease(id: string, sentAtMs: number): void {
    this.#asked.set(id, sentAtMs);
    if (this.#asked.size > OPEN_QUESTIONS) this.#asked.delete(this.#asked.keys().next().value ?? '');
  }

  async #untilRenewal(signal: AbortSignal): Promise<void> {
    this.#renewSoon = Promise.withResolvers();
    const timer = new AbortController();
    const ms = jitter(this.#welcome!.renewEveryMs, 0.1);
    const due = sleep(ms, AbortSignal.any([signal, timer.signal])).catch(() => {});
    await Promise.race([due, this.#renewSoon.promise]);
    timer.abort();
    signal.throwIfAborted();
  }

  /** Leases count from when we asked, the safe side of when they were granted. */
  #confirm(re: string | undefined, ok: readonly (RunRef & { leaseMs: number })[]): void {
    const sentAtMs = re === undefined ? undefined : this.#asked.get(re);
    if (re === undefined || sentAtMs === undefined) return;
    this.#asked.delete(re);
    this.#context.holder.confirmed(ok, sentAtMs);
  }

  #send<T extends FromAgent['t']>(t: T, d: Body<T>): string {
    const id = newId();
    const ep = this.#welcome?.epoch;
    // The last word: a renewal that is due now says nothing more.
    if (ep !== undefined && !this.#saidBye)
      this.#link?.send({ v: 1, t, id, ep, d } as Extract<FromAgent, { t: T }>);
    return id;
  }
}
