import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { isUuid } from '../../kit/ids.ts';
import {
  CompleteArtifact,
  GetArtifact,
  MAX_ARTIFACT_BYTES,
  OpenArtifact,
  PART_BYTES,
  PART_SHA256_HEADER,
  PutPart,
} from '../../contract/index.ts';
import { PartRefusal, type Blob } from '../blobs/index.ts';
import { artifacts, type ArtifactRow, type KeyHolder } from '../store/index.ts';
import type { Door } from './door.ts';
import { refuse, refuseBody } from './http-errors.ts';
import type { GatewayLimits } from './limits.ts';
import { UnderWay } from './under-way.ts';

/** Largest announcement: names and types are short. */
const ANNOUNCEMENT_BYTES = 16 * 1024;
const RETRY_AFTER_SECONDS = 5;
/** The network or the store is at fault, not the artifact: the same again may succeed. */
const NO_SPACE = new Set(['ENOSPC', 'EDQUOT']);

const PART_STATUS: Readonly<Record<PartRefusal['reason'], number>> = {
  unknown: 400,
  tooLong: 413,
  damaged: 422,
};

interface Named {
  Params: { artifactId: string; n: string };
}
type Answer = Promise<FastifyReply>;

/**
 * Takes the bytes of artifacts that a result's manifest announced. Parts may come in parallel, twice, in
 * any order and to any replica: which are here is seen in the blob store alone.
 */
export class Artifacts {
  readonly #door: Door;
  readonly #limits: GatewayLimits;
  readonly #underWay: UnderWay;

  constructor(door: Door, limits: GatewayLimits) {
    this.#door = door;
    this.#limits = limits;
    this.#underWay = new UnderWay({ all: limits.uploads, each: limits.uploadsPerLocation });
  }

  mount(scope: FastifyInstance): void {
    const holders = new WeakMap<FastifyRequest, KeyHolder>();
    scope.addContentTypeParser('application/octet-stream', (_request, payload, done) => done(null, payload));
    // Before the body is read: nobody without a key, and not too many at once.
    scope.addHook('onRequest', async (request, reply) => {
      const holder = await this.#door.keys.holderOf(request.headers.authorization);
      if (holder === undefined) return refuse(reply, 401, this.#door.badKey);
      if (!this.#admit(holder, reply)) return reply;
      holders.set(request, holder);
    });
    scope.post(OpenArtifact.path, { bodyLimit: ANNOUNCEMENT_BYTES }, async (request, reply) =>
      this.#open(holders.get(request)!, request.body, reply),
    );
    const one = (
      answer: (row: ArtifactRow, request: FastifyRequest<Named>, reply: FastifyReply) => Answer,
    ) => {
      return async (request: FastifyRequest<Named>, reply: FastifyReply): Answer => {
        const row = await this.#find(request.params.artifactId, holders.get(request)!);
        if (row === undefined) return refuse(reply, 404, 'There is no such artifact: announce it again.');
        return answer(row, request, reply);
      };
    };
    scope.get<Named>(
      GetArtifact.path,
      one(async (row, _request, reply) => this.#answerState(row, reply)),
    );
    scope.put<Named>(
      PutPart.path,
      one(async (row, request, reply) => this.#put(row, request, reply)),
    );
    scope.post<Named>(
      CompleteArtifact.path,
      one(async (row, _request, reply) => this.#complete(row, reply)),
    );
  }

  #admit({ locationId, location }: KeyHolder, reply: FastifyReply): boolean {
    const bound = this.#underWay.enter(locationId, reply);
    if (bound === 'each') refuse(reply, 429, `Location ${location} has too many uploads under way.`, 1);
    if (bound === 'all') refuse(reply, 503, 'Too many uploads are under way.', 1);
    return bound === undefined;
  }

  async #find(id: string, holder: KeyHolder): Promise<ArtifactRow | undefined> {
    if (!isUuid(id)) return undefined;
    return artifacts.findArtifact(this.#door.house.context.store.db, id, holder);
  }

  async #open(holder: KeyHolder, body: unknown, reply: FastifyReply): Answer {
    const parsed = OpenArtifact.body.safeParse(body);
    if (!parsed.success) return refuseBody(reply, parsed.error);
    const { resultId, name, size, sha256 } = parsed.data;
    if (size > MAX_ARTIFACT_BYTES) {
      return refuse(reply, 413, `size: ${size} bytes are too many; at most ${MAX_ARTIFACT_BYTES} are taken`);
    }
    const row = await artifacts.findAnnounced(this.#door.house.context.store.db, resultId, name, holder);
    if (row === undefined) {
      return refuse(reply, 404, 'No stored result of this location has this artifact in its manifest.');
    }
    if (row.sha256 !== sha256 || row.size !== size) {
      return refuse(reply, 409, "size or sha256: differs from the result's manifest");
    }
    if (row.state === 'pending' || row.state === 'refused') await this.#touch(row);
    return this.#answerState({ ...row, state: row.state === 'stored' ? 'stored' : 'pending' }, reply);
  }

  async #answerState(row: ArtifactRow, reply: FastifyReply): Answer {
    return reply.code(200).send({
      artifactId: row.id,
      mode: 'service',
      partBytes: PART_BYTES,
      have: await this.#door.house.context.blobs.parts(blobOf(row)),
      state: row.state === 'stored' ? 'stored' : 'open',
    });
  }

  async #put(row: ArtifactRow, request: FastifyRequest<Named>, reply: FastifyReply): Answer {
    const n = /^\d{1,6}$/.test(request.params.n) ? Number(request.params.n) : 0;
    const sha256 = request.headers[PART_SHA256_HEADER];
    if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) {
      return refuse(
        reply,
        400,
        `${PART_SHA256_HEADER}: must be the SHA-256 of the part in hexadecimal digits`,
      );
    }
    if (row.sha256 === null) return refuse(reply, 409, 'The manifest says that this artifact is not sent.');
    const { blobs } = this.#door.house.context;
    const bytes = watched(request.body as Readable, this.#limits.uploadSilenceMs);
    try {
      await blobs.putPart(blobOf(row), n, bytes, sha256);
      if (row.state !== 'stored') await this.#touch(row);
      return await reply.code(204).send();
    } catch (error) {
      if (error instanceof PartRefusal) {
        reply.header('connection', 'close');
        return refuse(reply, PART_STATUS[error.reason], error.message);
      }
      return this.#fault(error, row, reply);
    }
  }

  async #complete(row: ArtifactRow, reply: FastifyReply): Answer {
    if (row.state === 'stored') return reply.code(200).send({ state: 'stored' });
    if (row.sha256 === null) return refuse(reply, 409, 'The manifest says that this artifact is not sent.');
    const { blobs, store } = this.#door.house.context;
    const blob = blobOf(row);
    try {
      await this.#touch(row);
      switch (await blobs.check(blob, row.sha256)) {
        case 'incomplete': {
          const have = await blobs.parts(blob);
          return await reply
            .code(409)
            .send({ statusCode: 409, error: 'Conflict', message: 'Parts are missing.', have });
        }
        case 'wrong':
          return refuse(reply, 422, 'The SHA-256 of the whole is another one; send all parts again.');
        case 'right':
          if (await artifacts.artifactStored(store.db, row)) return await reply.send({ state: 'stored' });
          await blobs.remove(blob);
          return refuse(reply, 404, 'The result of this artifact is not kept any more.');
      }
    } catch (error) {
      return this.#fault(error, row, reply);
    }
  }

  async #touch(row: ArtifactRow): Promise<void> {
    await artifacts.touchArtifact(this.#door.house.context.store.db, row);
  }

  #fault(error: unknown, row: ArtifactRow, reply: FastifyReply): FastifyReply {
    const log = { artifact: row.name, location: row.location, reason: messageOf(error) };
    this.#door.log.warn(log, 'artifact not taken');
    const full = NO_SPACE.has(codeOf(error) ?? '');
    const message = full
      ? 'The blob store of the service is full.'
      : 'The service cannot take artifacts now.';
    return refuse(reply, 503, message, RETRY_AFTER_SECONDS);
  }
}

const blobOf = ({ id, scheduled_at, size }: ArtifactRow): Blob => ({ id, day: scheduled_at, size });

/**
 * The chunks of a body; an agent that falls silent for so long has gone. What is refused early is still
 * answered: the request is not destroyed with the reading.
 */
async function* watched(body: Readable, silenceMs: number): AsyncGenerator<Uint8Array> {
  const timer = setTimeout(() => body.destroy(new Error(`no byte came for ${silenceMs} ms`)), silenceMs);
  try {
    for await (const chunk of body.iterator({ destroyOnReturn: false })) {
      timer.refresh();
      yield chunk as Uint8Array;
    }
  } finally {
    clearTimeout(timer);
  }
}
