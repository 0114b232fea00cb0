import { OpenSession, Poll, type FromAgent } from '../../contract/index.ts';
import type { Reply } from '../ports.ts';
import {
  BROKEN,
  codeOfStatus,
  ENDED,
  openError,
  OpenError,
  type Closed,
  type Link,
  type LinkTiming,
} from './link.ts';
import type { ServiceClient } from './service-client.ts';

interface Answer {
  messages: unknown[];
  close?: Closed;
}

/** A link over HTTP requests: one that waits for messages, and short ones that carry ours. */
export async function openPoll(
  client: ServiceClient,
  timing: LinkTiming,
  hello: FromAgent,
  receive: (raw: unknown) => void,
  signal: AbortSignal,
): Promise<Link> {
  const first = await open(client, hello, timing.openTimeoutMs, signal);
  const sid = first.messages.map(sessionId).find((id) => id !== undefined);
  if (sid === undefined) throw new OpenError({ code: BROKEN, reason: 'the answer holds no welcome' }, false);
  const link = new PollLink(client, timing, Poll.path.replace(':sid', sid), receive);
  link.start(first.messages);
  return link;
}

async function open(
  client: ServiceClient,
  hello: FromAgent,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Answer> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const answer = await post(client, OpenSession.path, { messages: [hello] }, limited).catch(
    (error: unknown) => {
      signal.throwIfAborted();
      throw openError(error);
    },
  );
  if (answer.close !== undefined) throw new OpenError(answer.close, false);
  return answer;
}

class PollLink implements Link {
  readonly kind = 'poll';
  readonly closed: Promise<Closed>;
  readonly #setClosed: (closed: Closed) => void;
  readonly #client: ServiceClient;
  readonly #timing: LinkTiming;
  readonly #path: string;
  readonly #receive: (raw: unknown) => void;
  readonly #stop = new AbortController();
  #outbox: FromAgent[] = [];
  #sending = false;
  #closing = false;

  constructor(client: ServiceClient, timing: LinkTiming, path: string, receive: (raw: unknown) => void) {
    this.#client = client;
    this.#timing = timing;
    this.#path = path;
    this.#receive = receive;
    ({ promise: this.closed, resolve: this.#setClosed } = Promise.withResolvers<Closed>());
  }

  start(messages: readonly unknown[]): void {
    // After openPoll has returned, so that the receiver knows its link.
    setImmediate(() => {
      for (const message of messages) this.#receive(message);
      void this.#wait();
    });
  }

  send(message: FromAgent): void {
    this.#outbox.push(message);
    // What one turn of the event loop says leaves in one request.
    if (!this.#sending) {
      this.#sending = true;
      setImmediate(() => void this.#flush());
    }
  }

  close(): void {
    this.#closing = true;
    if (!this.#sending) this.#end({ code: ENDED, reason: 'ended by the agent' });
  }

  async #wait(): Promise<void> {
    while (!this.#stop.signal.aborted) await this.#exchange([], true, this.#timing.pollAnswerMs);
  }

  async #flush(): Promise<void> {
    while (this.#outbox.length > 0 && !this.#stop.signal.aborted) {
      const messages = this.#outbox;
      this.#outbox = [];
      await this.#exchange(messages, false, this.#timing.openTimeoutMs);
    }
    this.#sending = false;
    if (this.#closing) this.#end({ code: ENDED, reason: 'ended by the agent' });
  }

  /** A request that fails may or may not have arrived; the next hello's inventory settles it. */
  async #exchange(messages: readonly FromAgent[], wait: boolean, timeoutMs: number): Promise<void> {
    try {
      const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(timeoutMs)]);
      const answer = await post(this.#client, this.#path, { messages, wait }, signal);
      for (const message of answer.messages) this.#receive(message);
      if (answer.close !== undefined) this.#end(answer.close);
    } catch (error) {
      this.#end(openError(error).closed);
    }
  }

  #end(closed: Closed): void {
    this.#setClosed(closed);
    this.#stop.abort(new Error(closed.reason));
  }
}

async function post(client: ServiceClient, path: string, body: object, signal: AbortSignal): Promise<Answer> {
  const bytes = Buffer.from(JSON.stringify(body));
  const reply = await client.post(path, bytes, { 'content-type': 'application/json' }, signal);
  if (reply.status !== 200) throw new OpenError(closedOf(reply), false);
  return readAnswer(reply);
}

function closedOf({ status, retryAfterMs }: Reply): Closed {
  const closed = { code: codeOfStatus(status), reason: `the service answered ${status}` };
  return retryAfterMs === undefined ? closed : { ...closed, retryAfterMs };
}

/** Read with care for the frame only; each message is judged by itself later. */
function readAnswer(reply: Reply): Answer {
  const raw: unknown = JSON.parse(reply.body.toString());
  if (!isObject(raw) || !Array.isArray(raw['messages']))
    throw new Error('the answer of the service is not a poll reply');
  const messages: unknown[] = raw['messages'];
  const close = raw['close'];
  if (!isObject(close) || typeof close['code'] !== 'number') return { messages };
  const reason = typeof close['reason'] === 'string' ? close['reason'] : '';
  return { messages, close: { code: close['code'], reason } };
}

function sessionId(message: unknown): string | undefined {
  if (!isObject(message) || message['t'] !== 'welcome' || !isObject(message['d'])) return undefined;
  const { sid } = message['d'];
  return typeof sid === 'string' ? sid : undefined;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;
