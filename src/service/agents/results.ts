import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { monoMs } from '../../kit/clock.ts';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { PostResults, type ResultReceipt, type RunResult } from '../../contract/index.ts';
import type { KeyHolder } from '../store/index.ts';
import { BatchRefusal, readBatch, type ReadResult } from './batch-body.ts';
import type { Door } from './door.ts';
import { refuse } from './http-errors.ts';
import type { GatewayLimits } from './limits.ts';
import { UnderWay } from './under-way.ts';

/** SQL states of data that no repetition makes acceptable: bad value, broken rule, over a limit. */
const UNACCEPTABLE = /^(22|23|54)/;
const RETRY_AFTER_MS = 5000;

/** Takes result batches over HTTP. Receipts leave after the commit only. */
export class Results {
  readonly #door: Door;
  readonly #limits: GatewayLimits;
  /** Batches being read or stored. */
  readonly #underWay: UnderWay;

  constructor(door: Door, limits: GatewayLimits) {
    this.#door = door;
    this.#limits = limits;
    this.#underWay = new UnderWay({ all: limits.batches, each: limits.batchesPerLocation });
  }

  mount(scope: FastifyInstance): void {
    const holders = new WeakMap<FastifyRequest, KeyHolder>();
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      'application/json',
      { parseAs: 'buffer', bodyLimit: this.#limits.batchBytes },
      (_request, body, done) => done(null, body),
    );
    // Before the body is read: nobody without a key, and not too many at once.
    scope.addHook('onRequest', async (request, reply) => {
      const holder = await this.#door.keys.holderOf(request.headers.authorization);
      if (holder === undefined) return this.#refuse(reply, 401, this.#door.badKey);
      if (!this.#admit(holder, reply)) return reply;
      holders.set(request, holder);
    });
    scope.post(PostResults.path, async (request, reply) => {
      const holder = holders.get(request);
      const { body } = request;
      if (holder === undefined || !Buffer.isBuffer(body)) return this.#refuse(reply, 400, 'body: is missing');
      return this.#take(holder, body, request, reply);
    });
  }

  #admit({ locationId, location }: KeyHolder, reply: FastifyReply): boolean {
    const bound = this.#underWay.enter(locationId, reply);
    const open = this.#underWay.of(locationId);
    if (bound === 'each') this.#refuse(reply, 429, `Location ${location} has ${open} batches under way.`, 1);
    if (bound === 'all') this.#refuse(reply, 503, 'Too many batches are under way.', 1);
    return bound === undefined;
  }

  async #take(
    holder: KeyHolder,
    body: Buffer,
    request: FastifyRequest,
    reply: FastifyReply,
  ): Promise<FastifyReply> {
    try {
      const read = await readBatch(body, request.headers['content-encoding']);
      const started = monoMs();
      const receipts = await this.#record(holder, read);
      const { metrics, presence } = this.#door.house;
      metrics.batchSeconds.observe((monoMs() - started) / 1000);
      for (const { status } of receipts) metrics.results.inc({ status });
      presence.used(holder);
      return await reply.send({ receipts });
    } catch (error) {
      if (error instanceof BatchRefusal) return this.#refuse(reply, error.statusCode, error.message);
      this.#door.log.error({ location: holder.location, error: messageOf(error) }, 'results not stored');
      return this.#refuse(reply, 503, 'The service cannot store results now.', RETRY_AFTER_MS / 1000);
    }
  }

  /** One receipt for each, in order. */
  async #record(holder: KeyHolder, read: readonly ReadResult[]): Promise<ResultReceipt[]> {
    const good = read.flatMap((each) => ('result' in each ? [each.result] : []));
    const stored = good.length === 0 ? [] : await this.#store(holder, good);
    const receipts = stored.values();
    return read.map((each) => {
      if ('reason' in each) return { resultId: each.resultId, status: 'rejected', reason: each.reason };
      return receipts.next().value ?? { resultId: each.result.resultId, status: 'retry', afterMs: 0 };
    });
  }

  /** @throws when the store cannot be reached */
  async #store(holder: KeyHolder, results: readonly RunResult[]): Promise<ResultReceipt[]> {
    const { queue } = this.#door.house.context;
    const location = { accountId: holder.accountId, slug: holder.location };
    try {
      return await queue.record(location, results);
    } catch (error) {
      if (!UNACCEPTABLE.test(codeOf(error) ?? '')) throw error;
      if (results.length > 1) {
        const each: ResultReceipt[] = [];
        for (const result of results) each.push(...(await this.#store(holder, [result])));
        return each;
      }
      this.#door.log.error({ error: messageOf(error), runId: results[0]!.runId }, 'result cannot be stored');
      const reason = `the store refuses it: ${messageOf(error)}`;
      return [{ resultId: results[0]!.resultId, status: 'rejected', reason }];
    }
  }

  #refuse(reply: FastifyReply, status: number, message: string, retryAfterSeconds?: number): FastifyReply {
    this.#door.house.metrics.refusedBatches.inc({ status: String(status) });
    return refuse(reply, status, message, retryAfterSeconds);
  }
}
