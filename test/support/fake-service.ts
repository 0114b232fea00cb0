import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { gunzipSync, zstdDecompressSync } from 'node:zlib';
import { WebSocketServer, type WebSocket } from 'ws';
import {
  CONNECT_PATH,
  DEFAULT_TIMING,
  FromAgent,
  GetBundle,
  OpenSession,
  PostLog,
  PostResults,
  ResultBatch,
  SUBPROTOCOL,
  type FromService,
  type HeldRun,
  type Job,
  type ResultReceipt,
  type RunRef,
  type RunResult,
  type Timing,
} from '../../src/contract/index.ts';
import { newId, newSecret } from '../../src/kit/ids.ts';

/**
 * The service's end of the wire for tests of the agent: real HTTP, real WebSockets, the real contract,
 * and a switch for each thing that can go wrong. It keeps everything that it was told.
 */

const BUNDLES = GetBundle.path.replace(':sha256', '');

type Body<T extends FromService['t']> = Extract<FromService, { t: T }>['d'];
type Said = { [T in FromAgent['t']]: Extract<FromAgent, { t: T }>['d'] };

export interface FakeSession {
  readonly kind: 'socket' | 'poll';
  readonly hello: Said['hello'];
  readonly epoch: number;
  readonly closed: boolean;
  send<T extends FromService['t']>(t: T, d: Body<T>, re?: string): void;
  /** Sends whatever it is given. */
  sendRaw(message: unknown): void;
  close(code: number, reason?: string): void;
  /** From now on nothing is read and nothing answered, and the connection stays open. */
  freeze(): void;
}

export interface FakeService extends AsyncDisposable {
  readonly url: string;
  readonly key: string;
  readonly sessions: FakeSession[];
  readonly said: FromAgent[];
  /** Results in order of arrival, repeats included. */
  readonly results: RunResult[];
  readonly batches: { size: number; encoding: string }[];
  /** Upgrades that were tried. */
  upgrades: number;
  /** Answers every upgrade with this status. */
  refuseUpgrade: number | undefined;
  /** Answers every HTTP request of the agent with this status. */
  refuseHttp: number | undefined;
  /** Answers renewals; without, every lease is confirmed. */
  lease: ((running: readonly HeldRun[]) => Partial<Body<'lease'>> | undefined) | undefined;
  /** Answers a batch; without, everything is stored. */
  record:
    | ((results: readonly RunResult[]) => { status: number; receipts?: ResultReceipt[]; retryAfter?: number })
    | undefined;
  /** Archives of suites, by their SHA-256. */
  readonly bundles: Map<string, Buffer>;
  /** Archives that were asked for, in order. */
  readonly bundlesAsked: string[];
  /** Live logs of suites: `runId/token` and what came. */
  readonly logs: { runId: number; token: number; text: string }[];
  /** Runs that the next welcome says are not the agent's. */
  drop: (RunRef & { why: string })[];
  offer(...jobs: Job[]): void;
  /** Cuts every WebSocket without a word, as a proxy might. */
  cutSockets(): void;
  /** The live session; waits for one. */
  session(where?: (session: FakeSession) => boolean): Promise<FakeSession>;
  /** The first message of this kind that matches; waits for it. */
  heard<T extends FromAgent['t']>(t: T, where?: (d: Said[T]) => boolean): Promise<Said[T]>;
  resultOf(job: Job): Promise<RunResult>;
  /** Forgets what was said, so that `heard` waits for news. */
  forget(): void;
  /** Cancels a run that would go on for long, and waits for its end. */
  cancel(job: Job): Promise<RunResult>;
}

export async function startFakeService(
  options: { timing?: Partial<Timing>; flushMs?: number; maxItems?: number } = {},
): Promise<FakeService> {
  const service = new Fake(options);
  await service.listen();
  return service;
}

/** Resolves once `done` gives something; the fake's clock for everything. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | Promise<T | undefined | false>,
  withinMs = 30_000,
): Promise<T> {
  const endMs = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (performance.now() > endMs) throw new Error(`waited ${withinMs} ms for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

class Fake implements FakeService {
  readonly key = newSecret('pl');
  readonly sessions: LiveSession[] = [];
  readonly said: FromAgent[] = [];
  readonly results: RunResult[] = [];
  readonly batches: { size: number; encoding: string }[] = [];
  readonly bundles = new Map<string, Buffer>();
  readonly bundlesAsked: string[] = [];
  readonly logs: { runId: number; token: number; text: string }[] = [];
  upgrades = 0;
  refuseUpgrade: number | undefined;
  refuseHttp: number | undefined;
  lease: FakeService['lease'];
  record: FakeService['record'];
  drop: (RunRef & { why: string })[] = [];
  readonly #timing: Timing;
  readonly #batch: { maxItems: number; maxBytes: number; flushMs: number };
  readonly #server = createServer((request, response) => void this.#serve(request, response));
  readonly #sockets = new Set<Socket>();
  readonly #upgrader = new WebSocketServer({ noServer: true, handleProtocols: () => SUBPROTOCOL });

  constructor(options: { timing?: Partial<Timing>; flushMs?: number; maxItems?: number }) {
    this.#timing = { ...DEFAULT_TIMING, ...options.timing };
    this.#batch = {
      maxItems: options.maxItems ?? 100,
      maxBytes: 2 * 1024 * 1024,
      flushMs: options.flushMs ?? 0,
    };
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async listen(): Promise<void> {
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket as Socket, head));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  cutSockets(): void {
    for (const ws of this.#upgrader.clients) ws.terminate();
  }

  offer(...jobs: Job[]): void {
    this.#live().send('offer', { jobs });
  }

  session(where: (session: FakeSession) => boolean = () => true): Promise<FakeSession> {
    return until('a session', () => this.sessions.findLast((each) => !each.closed && where(each)));
  }

  heard<T extends FromAgent['t']>(t: T, where: (d: Said[T]) => boolean = () => true): Promise<Said[T]> {
    return until(`a ${t}`, () => {
      for (const message of this.said) {
        if (message.t !== t) continue;
        const data: unknown = message.d;
        if (where(data as Said[T])) return { data: data as Said[T] };
      }
      return undefined;
    }).then(({ data }) => data);
  }

  forget(): void {
    this.said.length = 0;
  }

  cancel(job: Job): Promise<RunResult> {
    this.#live().send('cancel', { runs: [{ runId: job.runId, token: job.token }], graceMs: 100 });
    return this.resultOf(job);
  }

  resultOf({ runId, token }: Job): Promise<RunResult> {
    return until(`the result of ${runId}`, () =>
      this.results.find((result) => result.runId === runId && result.token === token),
    );
  }

  hear(session: LiveSession, message: FromAgent): void {
    this.said.push(message);
    if (message.t === 'renew') {
      const decided = this.lease === undefined ? {} : this.lease(message.d.running);
      if (decided === undefined) return;
      session.send('lease', this.#leaseOf(message.d.running, message.d.clock.t0, decided), message.id);
    } else if (message.t === 'bye') {
      session.close(1000);
    }
  }

  open(
    kind: FakeSession['kind'],
    hello: Extract<FromAgent, { t: 'hello' }>,
    deliver: (message: unknown) => void,
  ): LiveSession {
    const session = new LiveSession(kind, hello.d, this.sessions.length + 1, deliver);
    this.sessions.push(session);
    this.said.push(hello);
    session.send('welcome', this.#welcome(session, hello), hello.id);
    return session;
  }

  #welcome(session: LiveSession, hello: Extract<FromAgent, { t: 'hello' }>): Body<'welcome'> {
    const { renewEveryMs, leaseMs, acceptMs } = this.#timing;
    const drop = this.drop;
    this.drop = [];
    return {
      sid: session.sid,
      epoch: session.epoch,
      protocol: 1,
      features: [],
      location: 'here',
      clock: { t0: hello.d.clock.t0, t1: Date.now(), t2: Date.now() },
      renewEveryMs,
      leaseMs,
      acceptMs,
      resultBatch: this.#batch,
      minAgentVersion: null,
      drop,
    };
  }

  #leaseOf(running: readonly HeldRun[], t0: number, decided: Partial<Body<'lease'>>): Body<'lease'> {
    const gone = [...(decided.lost ?? []), ...(decided.cancel ?? [])];
    const ok = running
      .filter((run) => !gone.some((each) => each.runId === run.runId && each.token === run.token))
      .map(({ runId, token }) => ({ runId, token, leaseMs: this.#timing.leaseMs }));
    return { ok, lost: [], cancel: [], clock: { t0, t1: Date.now(), t2: Date.now() }, ...decided };
  }

  #live(): LiveSession {
    const live = this.sessions.findLast((each) => !each.closed);
    if (live === undefined) throw new Error('no session is open');
    return live;
  }

  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    this.upgrades++;
    const status = this.refuseUpgrade ?? (this.#mayEnter(request) ? undefined : 401);
    if (status !== undefined || request.url !== CONNECT_PATH) {
      socket.end(`HTTP/1.1 ${status ?? 404} Refused\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
      return;
    }
    this.#upgrader.handleUpgrade(request, socket, head, (ws) => this.#serveSocket(ws));
  }

  #serveSocket(ws: WebSocket): void {
    let session: LiveSession | undefined;
    ws.on('message', (data: Buffer) => {
      const message = FromAgent.parse(JSON.parse(data.toString()));
      if (message.t !== 'hello') this.hear(session!, message);
      else {
        session = this.open('socket', message, (out) => ws.send(JSON.stringify(out)));
        session.onClose = (code, reason) => ws.close(code, reason);
        session.onFreeze = () => ws.pause();
        ws.on('close', () => session?.ended());
      }
    });
    ws.on('error', () => {});
  }

  #mayEnter(request: IncomingMessage): boolean {
    return request.headers.authorization === `Bearer ${this.key}`;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = decode(request, await bodyOf(request));
    const status = this.refuseHttp ?? (this.#mayEnter(request) ? undefined : 401);
    const path = request.url ?? '';
    if (status !== undefined) response.writeHead(status).end();
    else if (path.startsWith(BUNDLES)) this.#sendBundle(path.slice(BUNDLES.length), response);
    else if (path === PostLog.path) {
      this.logs.push(PostLog.body.parse(body));
      response.writeHead(204).end();
    } else if (path === PostResults.path) this.#recordBatch(request, response, body);
    else if (path === OpenSession.path) this.#openPoll(response, body);
    else this.#poll(path.split('/').at(-2) ?? '', response, body);
  }

  #sendBundle(sha256: string, response: ServerResponse): void {
    this.bundlesAsked.push(sha256);
    const bundle = this.bundles.get(sha256);
    if (bundle === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-length': bundle.length }).end(bundle);
  }

  #recordBatch(request: IncomingMessage, response: ServerResponse, body: unknown): void {
    const { results } = ResultBatch.parse(body);
    this.batches.push({ size: results.length, encoding: request.headers['content-encoding'] ?? 'identity' });
    const answer = this.record?.(results) ?? { status: 200 };
    if (answer.status !== 200) {
      if (answer.retryAfter !== undefined) response.setHeader('retry-after', String(answer.retryAfter));
      response.writeHead(answer.status).end();
      return;
    }
    this.results.push(...results);
    const receipts =
      answer.receipts ?? results.map(({ resultId }) => ({ resultId, status: 'stored' as const }));
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ receipts }));
  }

  #openPoll(response: ServerResponse, body: unknown): void {
    const [hello] = OpenSession.body.parse(body).messages;
    if (hello?.t !== 'hello') throw new Error('the first message is not a hello');
    const session = this.open('poll', hello, (message) => session.queue(message));
    // The welcome was sent before `session` had a name.
    session.answer(response);
  }

  #poll(sid: string, response: ServerResponse, body: unknown): void {
    const session = this.sessions.find((each) => each.sid === sid);
    if (session === undefined) {
      response.writeHead(404).end();
      return;
    }
    if (session.frozen) return;
    const { messages, wait } = body as { messages: unknown[]; wait: boolean };
    for (const message of messages) this.hear(session, FromAgent.parse(message));
    if (wait) session.hold(response);
    else session.answer(response);
  }
}

class LiveSession implements FakeSession {
  readonly sid = newId();
  readonly kind: FakeSession['kind'];
  readonly hello: Said['hello'];
  readonly epoch: number;
  closed = false;
  frozen = false;
  onClose: (code: number, reason: string) => void = () => {};
  onFreeze: () => void = () => {};
  readonly #deliver: (message: unknown) => void;
  #outbox: unknown[] = [];
  #end: { code: number; reason: string } | undefined;
  #held: ServerResponse | undefined;

  constructor(
    kind: FakeSession['kind'],
    hello: Said['hello'],
    epoch: number,
    deliver: (message: unknown) => void,
  ) {
    this.kind = kind;
    this.hello = hello;
    this.epoch = epoch;
    this.#deliver = kind === 'poll' ? (message) => this.queue(message) : deliver;
  }

  send<T extends FromService['t']>(t: T, d: Body<T>, re?: string): void {
    this.sendRaw({ v: 1, t, id: newId(), ep: this.epoch, d, ...(re === undefined ? {} : { re }) });
  }

  sendRaw(message: unknown): void {
    if (!this.frozen) this.#deliver(message);
  }

  close(code: number, reason = ''): void {
    this.closed = true;
    this.#end = { code, reason };
    this.onClose(code, reason);
    if (this.#held !== undefined) this.answer(this.#held);
  }

  freeze(): void {
    this.frozen = true;
    this.onFreeze();
  }

  ended(): void {
    this.closed = true;
  }

  /** Poll only: leaves with the next answer. */
  queue(message: unknown): void {
    this.#outbox.push(message);
    if (this.#held !== undefined) this.answer(this.#held);
  }

  hold(response: ServerResponse): void {
    this.#held = response;
    response.on('close', () => {
      if (this.#held === response) this.#held = undefined;
    });
    if (this.#outbox.length > 0 || this.#end !== undefined) this.answer(response);
  }

  answer(response: ServerResponse): void {
    if (this.#held === response) this.#held = undefined;
    const messages = this.#outbox;
    this.#outbox = [];
    const reply = this.#end === undefined ? { messages } : { messages, close: this.#end };
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply));
  }
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function decode(request: IncomingMessage, body: Buffer): unknown {
  const encoding = request.headers['content-encoding'];
  const text = encoding === 'zstd' ? zstdDecompressSync(body) : encoding === 'gzip' ? gunzipSync(body) : body;
  return text.length === 0 ? undefined : JSON.parse(text.toString());
}
