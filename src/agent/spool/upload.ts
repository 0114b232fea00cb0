import { promisify } from 'node:util';
import { gzip, zstdCompress } from 'node:zlib';
import { PostResults, ResultReceipts, type ResultReceipt } from '../../contract/index.ts';
import { backoffMs, monoMs, sleep, wallMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { Recorder, Reply } from '../ports.ts';
import type { Spool, SpooledResult } from './spool.ts';

/** The service as the uploader sees it. */
export interface UploadTarget {
  /** @throws on a network fault */
  post(path: string, body: Buffer, headers: Record<string, string>, signal: AbortSignal): Promise<Reply>;
  /** Largest batch, and how long a scheduled result may wait for company. */
  batch(): { maxItems: number; maxBytes: number; flushMs: number };
  clockOffsetMs(): number | null;
  /** Runs at once; a quarter of it waiting is sent without delay, so that finished runs free their credit. */
  slots(): number;
}

/** Below this a body does not shrink enough to be worth the call. */
const COMPRESS_FROM_BYTES = 1024;
const REQUEST_TIMEOUT_MS = 60_000;
const MAX_BACKOFF_MS = 30_000;

type Outcome = { kind: 'sent' } | { kind: 'wait'; ms: number; why: string } | { kind: 'refused' };

/** Sends spooled results in batches until the service has them. */
export class Uploader {
  readonly #spool: Spool;
  readonly #target: UploadTarget;
  readonly #log: Log;
  readonly #recorder: Recorder;
  /** Results that the service asked to see again later, by id: not before this instant (monotonic). */
  readonly #notBefore = new Map<string, number>();
  /** Results per batch, halved while the service refuses whole batches. */
  #limit = Infinity;
  #useZstd = true;
  #failures = 0;
  #wake = Promise.withResolvers<void>();
  /** The key was refused: nothing is sent until a connection is welcomed again. */
  refused = false;
  #hurry = false;

  constructor(spool: Spool, target: UploadTarget, log: Log, recorder: Recorder) {
    this.#spool = spool;
    this.#target = target;
    this.#log = log;
    this.#recorder = recorder;
  }

  /** Uploads until `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const unsubscribe = this.#spool.onChange(() => this.#wake.resolve());
    try {
      while (!signal.aborted) await this.#turn(signal);
    } finally {
      unsubscribe();
    }
  }

  /** The service accepts the key (again). */
  welcomed(): void {
    this.refused = false;
    this.#failures = 0;
    this.#wake.resolve();
  }

  /** Sends without waiting for company until everything is sent or `signal` aborts. */
  async flush(signal: AbortSignal): Promise<void> {
    this.#hurry = true;
    this.#failures = 0;
    this.#wake.resolve();
    while (this.#spool.state.results > 0 && !this.refused && !signal.aborted) {
      await sleep(20, signal).catch(() => {});
    }
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const delayMs = this.#delayMs();
    if (delayMs > 0) {
      this.#wake = Promise.withResolvers();
      await this.#pause(delayMs, signal);
      return;
    }
    const outcome = await this.#send(this.#nextBatch(), signal);
    if (outcome.kind === 'refused') this.refused = true;
    if (outcome.kind === 'sent') this.#failures = 0;
    if (outcome.kind === 'wait') {
      if (this.#failures++ === 0 && !signal.aborted) {
        this.#log.warn(
          { why: outcome.why, results: this.#spool.state.results },
          'results wait for the service',
        );
      }
      this.#wake = Promise.withResolvers();
      await this.#pause(outcome.ms, signal, this.#failures > 1 || outcome.ms > 0);
    }
  }

  /** Ends early when something changed, unless the service or the network asked for the pause. */
  async #pause(ms: number, signal: AbortSignal, whole = false): Promise<void> {
    const stop = new AbortController();
    const timer = sleep(Math.min(ms, MAX_BACKOFF_MS), AbortSignal.any([signal, stop.signal])).catch(() => {});
    await (whole && !this.#hurry ? timer : Promise.race([timer, this.#wake.promise]));
    stop.abort();
  }

  /** How long the next batch should wait for company; Infinity when there is nothing to send. */
  #delayMs(): number {
    if (this.refused) return Infinity;
    const { maxItems, flushMs } = this.#target.batch();
    const due = this.#due(maxItems);
    if (due.length === 0) return this.#nextRetryMs();
    const enough = Math.min(maxItems, Math.ceil(this.#target.slots() / 4));
    if (this.#hurry || due.length >= enough || due.some(({ lane }) => lane === 0)) return 0;
    return due[0]!.createdMs + flushMs - wallMs();
  }

  /** The oldest `max` results that may be sent now. */
  #due(max: number): SpooledResult[] {
    const nowMs = monoMs();
    const due: SpooledResult[] = [];
    for (const result of this.#spool.pending()) {
      if (due.length >= max) break;
      if ((this.#notBefore.get(result.resultId) ?? 0) <= nowMs) due.push(result);
    }
    return due;
  }

  #nextRetryMs(): number {
    if (this.#notBefore.size === 0) return Infinity;
    return Math.max(1, Math.min(...this.#notBefore.values()) - monoMs());
  }

  #nextBatch(): SpooledResult[] {
    const { maxItems, maxBytes } = this.#target.batch();
    const due = this.#due(Math.min(maxItems, this.#limit));
    let bytes = 0;
    const fits = due.findIndex((each) => (bytes += each.bytes) > maxBytes);
    return fits < 0 ? due : due.slice(0, Math.max(1, fits));
  }

  async #send(batch: readonly SpooledResult[], signal: AbortSignal): Promise<Outcome> {
    const { body, headers } = await this.#encode(batch);
    let reply: Reply;
    try {
      const limited = AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]);
      reply = await this.#target.post(PostResults.path, body, headers, limited);
    } catch (error) {
      this.#recorder.upload('unreachable', batch.length);
      return { kind: 'wait', ms: this.#backoffMs(), why: messageOf(error) };
    }
    this.#recorder.upload(String(reply.status), batch.length);
    return this.#judge(reply, batch);
  }

  #judge(reply: Reply, batch: readonly SpooledResult[]): Outcome {
    const wait = (why: string): Outcome => ({
      kind: 'wait',
      ms: reply.retryAfterMs ?? this.#backoffMs(),
      why,
    });
    switch (reply.status) {
      case 200:
        return this.#settle(reply.body, batch) ? { kind: 'sent' } : wait('the answer could not be read');
      case 401:
      case 403:
        this.#log.error({ status: reply.status }, 'the service refuses the key; results are kept');
        return { kind: 'refused' };
      case 413:
        return this.#tooLarge(batch);
      case 415:
        this.#useZstd = false;
        return wait('the service does not know zstd');
      case 400:
      case 422:
        return this.#unacceptable(batch, reply);
      default:
        return wait(`the service answered ${reply.status}`);
    }
  }

  #settle(body: Buffer, batch: readonly SpooledResult[]): boolean {
    const receipts = readReceipts(body);
    if (receipts === undefined) return false;
    const done: string[] = [];
    const rejected = new Map<string, string>();
    for (const { resultId, status, reason, afterMs } of receipts) {
      if (status === 'retry') {
        this.#notBefore.set(resultId, monoMs() + Math.min(afterMs ?? 1000, MAX_BACKOFF_MS));
        continue;
      }
      this.#notBefore.delete(resultId);
      done.push(resultId);
      if (status === 'rejected') rejected.set(resultId, reason ?? 'rejected');
    }
    for (const [resultId, reason] of rejected) {
      this.#log.error({ resultId, reason }, 'the service will never take a result; it is kept for a week');
    }
    this.#spool.settle(done, rejected);
    this.#limit *= 2;
    return done.length > 0 || receipts.length === batch.length;
  }

  #tooLarge(batch: readonly SpooledResult[]): Outcome {
    if (batch.length === 1) return this.#bury(batch, 'too large for the service');
    this.#limit = Math.ceil(batch.length / 2);
    return { kind: 'sent' };
  }

  /** One bad result must not hold up the others: halve until it is alone. */
  #unacceptable(batch: readonly SpooledResult[], reply: Reply): Outcome {
    const why = reply.body.toString('utf8', 0, 500);
    if (batch.length === 1) return this.#bury(batch, `${reply.status}: ${why}`);
    this.#limit = Math.ceil(batch.length / 2);
    return { kind: 'sent' };
  }

  #bury(batch: readonly SpooledResult[], reason: string): Outcome {
    const ids = batch.map(({ resultId }) => resultId);
    this.#log.error({ ids, reason }, 'the service will never take a result; it is kept for a week');
    this.#spool.settle(ids, new Map(ids.map((id) => [id, reason])));
    this.#limit = Infinity;
    return { kind: 'sent' };
  }

  /** The spooled texts go out as they are: nothing is parsed and written again. */
  async #encode(batch: readonly SpooledResult[]): Promise<{ body: Buffer; headers: Record<string, string> }> {
    const bodies = batch.map(({ resultId }) => this.#spool.body(resultId)).filter((b) => b !== undefined);
    const head = JSON.stringify({
      agentId: this.#spool.agentId,
      sentAt: new Date(wallMs()).toISOString(),
      clockOffsetMs: this.#target.clockOffsetMs(),
    });
    const text = Buffer.from(`${head.slice(0, -1)},"results":[${bodies.join(',')}]}`);
    const headers = { 'content-type': 'application/json' };
    if (text.length < COMPRESS_FROM_BYTES) return { body: text, headers };
    return this.#useZstd
      ? { body: await zstd(text), headers: { ...headers, 'content-encoding': 'zstd' } }
      : { body: await gzipped(text), headers: { ...headers, 'content-encoding': 'gzip' } };
  }

  #backoffMs(): number {
    return Math.max(50, backoffMs(this.#failures, 1000, MAX_BACKOFF_MS));
  }
}

const zstd = promisify(zstdCompress);
const gzipped = promisify(gzip);

function readReceipts(body: Buffer): ResultReceipt[] | undefined {
  try {
    return ResultReceipts.parse(JSON.parse(body.toString())).receipts;
  } catch {
    return undefined;
  }
}
