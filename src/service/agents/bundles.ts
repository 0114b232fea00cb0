import { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { GetBundle, MAX_LOG_BYTES, PostLog } from '../../contract/index.ts';
import { bundleBlob } from '../blobs/index.ts';
import { bundles, runLogs, type KeyHolder } from '../store/index.ts';
import type { Door } from './door.ts';
import { refuse, refuseBody } from './http-errors.ts';
import type { GatewayLimits } from './limits.ts';
import { UnderWay } from './under-way.ts';

/** A message of the largest text, each character of which JSON may write as six. */
const MESSAGE_BYTES = 6 * MAX_LOG_BYTES + 1024;

/** What suites need beside their jobs: the project's archive, and somebody who reads what they print. */
export class Bundles {
  readonly #door: Door;
  readonly #underWay: UnderWay;

  constructor(door: Door, limits: GatewayLimits) {
    this.#door = door;
    this.#underWay = new UnderWay({ all: limits.uploads, each: limits.uploadsPerLocation });
  }

  mount(scope: FastifyInstance): void {
    const holders = new WeakMap<FastifyRequest, KeyHolder>();
    scope.addHook('onRequest', async (request, reply) => {
      const holder = await this.#door.keys.holderOf(request.headers.authorization);
      if (holder === undefined) return refuse(reply, 401, this.#door.badKey);
      const bound = this.#underWay.enter(holder.locationId, reply);
      if (bound === 'each') return refuse(reply, 429, 'This location has too many requests under way.', 1);
      if (bound === 'all') return refuse(reply, 503, 'Too many requests are under way.', 1);
      holders.set(request, holder);
    });
    scope.get<{ Params: { sha256: string } }>(GetBundle.path, async (request, reply) =>
      this.#send(holders.get(request)!, request.params.sha256, reply),
    );
    scope.post(PostLog.path, { bodyLimit: MESSAGE_BYTES }, async (request, reply) =>
      this.#keepLog(holders.get(request)!, request.body, reply),
    );
  }

  async #send(holder: KeyHolder, sha256: string, reply: FastifyReply): Promise<FastifyReply> {
    const { store, blobs } = this.#door.house.context;
    const isName = /^[0-9a-f]{64}$/.test(sha256);
    const row = isName ? await bundles.findBundleOfRun(store.db, holder, sha256) : undefined;
    const blob = row && bundleBlob(row);
    if (blob === undefined || !(await blobs.has(blob))) {
      return refuse(reply, 404, 'No run of this location needs an archive with this SHA-256.');
    }
    return reply
      .header('content-type', 'application/octet-stream')
      .header('content-length', String(blob.size))
      .send(Readable.from(blobs.read(blob, 0, blob.size), { objectMode: false }));
  }

  async #keepLog(holder: KeyHolder, body: unknown, reply: FastifyReply): Promise<FastifyReply> {
    const parsed = PostLog.body.safeParse(body);
    if (!parsed.success) return refuseBody(reply, parsed.error);
    const { store } = this.#door.house.context;
    // What no store can hold is of no use to a reader either.
    const text = parsed.data.text.toWellFormed().replaceAll('\0', '\ufffd');
    const sessionId = await runLogs.append(store.db, holder, { ...parsed.data, text });
    if (sessionId === undefined) return refuse(reply, 409, 'This run is not under way with this token.');
    store.wake(`session:${sessionId}`);
    return reply.code(204).send();
  }
}
