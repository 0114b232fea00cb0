import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { monoMs } from '../../kit/clock.ts';
import { CloseCode, MAX_FRAME_BYTES, OpenSession, Poll } from '../../contract/index.ts';
import { isUuid } from '../../kit/ids.ts';
import { agents, type KeyHolder } from '../store/index.ts';
import type { Carrier } from './carrier.ts';
import type { Conversation } from './conversation.ts';
import type { Door } from './door.ts';
import { refuse, refuseBody } from './http-errors.ts';
import type { GatewayLimits } from './limits.ts';
import { AgentSession } from './session.ts';

interface PolledSession {
  locationId: string;
  conversation: Conversation;
  carrier: PollCarrier;
}

// Single messages are read by the conversation, which answers each bad one by itself.
const OpenBody = z.object({ messages: z.array(z.unknown()).min(1).max(1000) });
const PollBody = z.object({ messages: z.array(z.unknown()).max(1000), wait: z.boolean() });

/**
 * The long-poll carrier. Any replica can go on with a session: what it needs is in the agent's row. A
 * poll that finds neither session nor row is answered 404, and the agent says hello again.
 */
export class Polls {
  readonly #door: Door;
  readonly #limits: GatewayLimits;
  readonly #polled = new Map<string, PolledSession>();

  constructor(door: Door, limits: GatewayLimits) {
    this.#door = door;
    this.#limits = limits;
  }

  mount(scope: FastifyInstance): void {
    const options = { bodyLimit: MAX_FRAME_BYTES };
    scope.post(OpenSession.path, options, async (request, reply) => this.#open(request, reply));
    scope.post<{ Params: { sid: string } }>(Poll.path, options, async (request, reply) =>
      this.#poll(request.params.sid, request, reply),
    );
  }

  /** Ends sessions whose agent has not polled for long. */
  expire(): void {
    const latest = monoMs() - this.#limits.pollSilenceMs;
    for (const [sid, { carrier, conversation }] of this.#polled) {
      if (carrier.seenAt > latest) continue;
      this.#polled.delete(sid);
      conversation.end(true);
    }
  }

  async #open(request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const holder = await this.#door.keys.holderOf(request.headers.authorization);
    if (holder === undefined) return refuse(reply, 401, this.#door.badKey);
    const body = OpenBody.safeParse(request.body);
    if (!body.success) return refuseBody(reply, body.error);
    const carrier = new PollCarrier((code) => this.#door.closed(code));
    if (this.#door.leaving) carrier.close(CloseCode.goingAway, 'the service is going away');
    else if (!this.#door.enter()) carrier.close(CloseCode.tooMany, 'too many agents are connecting at once');
    else await this.#enter(holder, carrier, body.data.messages);
    return answer(reply, await carrier.take());
  }

  async #enter(holder: KeyHolder, carrier: PollCarrier, messages: readonly unknown[]): Promise<void> {
    const conversation = this.#door.converse(holder, carrier);
    try {
      await tell(conversation, messages);
    } finally {
      this.#door.entered();
    }
    const { session } = conversation;
    if (session === undefined) {
      carrier.close(CloseCode.badMessage, 'no hello could be read');
      conversation.end();
    } else {
      this.#polled.set(session.sid, { locationId: holder.locationId, conversation, carrier });
    }
  }

  async #poll(sid: string, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
    const holder = await this.#door.keys.holderOf(request.headers.authorization);
    if (holder === undefined) return refuse(reply, 401, this.#door.badKey);
    const body = PollBody.safeParse(request.body);
    if (!body.success) return refuseBody(reply, body.error);
    const polled = await this.#find(sid, holder);
    if (polled === undefined) return refuse(reply, 404, 'There is no such session: say hello again.');
    const { carrier, conversation } = polled;
    carrier.seen();
    await tell(conversation, body.data.messages);
    const holdMs = body.data.wait ? this.#limits.pollHoldMs : 0;
    const waiting = carrier.take(holdMs, goneSignal(reply));
    const { session } = conversation;
    if (session !== undefined && carrier.ready()) this.#door.house.wanted(session.place);
    const frames = await waiting;
    carrier.seen();
    return answer(reply, frames);
  }

  async #find(sid: string, holder: KeyHolder): Promise<PolledSession | undefined> {
    const known = this.#polled.get(sid);
    if (known !== undefined) return known.locationId === holder.locationId ? known : undefined;
    if (!isUuid(sid) || this.#door.leaving) return undefined;
    const { house } = this.#door;
    const row = await agents.findSession(house.context.store.db, sid, holder.locationId);
    const meanwhile = this.#polled.get(sid);
    if (row === undefined || meanwhile !== undefined) return meanwhile;
    const carrier = new PollCarrier((code) => this.#door.closed(code));
    const conversation = this.#door.converse(holder, carrier);
    const session = new AgentSession(house, { ...row, sid, agentId: row.id, holder }, carrier);
    session.resume(row.free, row.draining);
    if (!conversation.adopt(session)) return undefined;
    const polled = { locationId: holder.locationId, conversation, carrier };
    this.#polled.set(sid, polled);
    return polled;
  }
}

/** Keeps what the service says until a poll fetches it. */
class PollCarrier implements Carrier {
  readonly kind = 'poll';
  readonly #onClose: (code: number) => void;
  readonly #outbox: string[] = [];
  #closed: { code: number; reason: string } | undefined;
  /** Lets the poll that is being held go. */
  #release: (() => void) | undefined;
  #seenAt = monoMs();

  constructor(onClose: (code: number) => void) {
    this.#onClose = onClose;
  }

  /** When a poll was last begun or answered; now, while one is held. Monotonic ms. */
  get seenAt(): number {
    return this.#release === undefined ? this.#seenAt : monoMs();
  }

  seen(): void {
    this.#seenAt = monoMs();
  }

  ready(): boolean {
    return this.#release !== undefined && this.#closed === undefined;
  }

  send(frame: string): void {
    if (this.#closed !== undefined) return;
    this.#outbox.push(frame);
    this.#release?.();
  }

  close(code: number, reason: string): void {
    if (this.#closed !== undefined) return;
    this.#onClose(code);
    this.#closed = { code, reason };
    this.#release?.();
  }

  /**
   * What there is to say, as the body of a PollReply; waits up to `holdMs` for something. A later poll
   * lets an earlier one go, so that each session holds one at most.
   */
  async take(holdMs = 0, gone?: AbortSignal): Promise<string> {
    if (holdMs > 0) {
      this.#release?.();
      if (this.#outbox.length === 0 && this.#closed === undefined) await this.#hold(holdMs, gone);
    }
    // The requester is gone: what there is stays for its next poll.
    if (gone?.aborted) return '';
    const frames = this.#fetch();
    const close = this.#outbox.length === 0 ? this.#closed : undefined;
    return `{"messages":[${frames.join(',')}]${close === undefined ? '' : `,"close":${JSON.stringify(close)}`}}`;
  }

  async #hold(holdMs: number, gone: AbortSignal | undefined): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, holdMs);
    gone?.addEventListener('abort', () => resolve());
    this.#release = resolve;
    await promise;
    clearTimeout(timer);
    if (this.#release === resolve) this.#release = undefined;
  }

  /** As many messages as one frame may hold, one at least. */
  #fetch(): string[] {
    let bytes = 0;
    const fits = this.#outbox.findIndex((frame, index) => {
      bytes += Buffer.byteLength(frame) + 1;
      return index > 0 && bytes > MAX_FRAME_BYTES;
    });
    return this.#outbox.splice(0, fits === -1 ? this.#outbox.length : fits);
  }
}

async function tell(conversation: Conversation, messages: readonly unknown[]): Promise<void> {
  await Promise.all(messages.map(async (message) => conversation.receive(message)));
}

/** Aborts when the requester hangs up before it has its answer. */
function goneSignal(reply: FastifyReply): AbortSignal {
  const gone = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort();
  });
  return gone.signal;
}

function answer(reply: FastifyReply, body: string): FastifyReply {
  return reply.code(200).type('application/json; charset=utf-8').send(body);
}
