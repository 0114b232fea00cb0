import { randomUUID } from 'node:crypto';
import { WebSocket } from 'ws';
import { CONNECT_PATH, FromService, PollReply, SUBPROTOCOL, type HeldRun } from '../../src/contract/index.ts';
import { within } from './harness.ts';

type Said<T extends FromService['t']> = Extract<FromService, { t: T }>;
export interface Closed {
  code: number;
  reason: string;
}

/** What an agent does on the wire, without its sense: it says whatever the test wants. */
export interface WireAgent {
  readonly kind: 'socket' | 'poll';
  readonly closed: Promise<Closed>;
  /** Everything heard so far. */
  readonly heard: FromService[];
  say: (t: string, d: object, more?: object) => string;
  /** Any value that is JSON, as one message. */
  sayRaw: (value: unknown) => void;
  /** The next message of this type that was not taken yet. */
  next<T extends FromService['t']>(t: T, withinMs?: number): Promise<Said<T>>;
  /** Breaks the connection without a word. */
  vanish: () => void;
}

export interface Identity {
  agentId?: string;
  running?: HeldRun[];
  total?: number;
  checkTypes?: string[];
  protocol?: { min: number; max: number };
  version?: string;
}

export function helloOf(identity: Identity = {}): object {
  return {
    agentId: identity.agentId ?? randomUUID(),
    instanceId: randomUUID(),
    agentVersion: identity.version ?? '0.1.0',
    protocol: identity.protocol ?? { min: 1, max: 1 },
    features: [],
    capabilities: { checkTypes: identity.checkTypes ?? ['URL', 'TCP'], os: 'linux', arch: 'x64' },
    slots: { total: identity.total ?? 10 },
    running: identity.running ?? [],
    clock: { t0: 1000 },
  };
}

interface Envelope {
  v: 1;
  t: string;
  id: string;
  d: object;
}

const envelope = (t: string, d: object, more: object = {}): Envelope => ({
  v: 1,
  t,
  id: randomUUID(),
  d,
  ...more,
});

/** Collects messages and hands them out by type. */
class Ear {
  readonly heard: FromService[] = [];
  readonly #taken = new Set<FromService>();
  #changed = Promise.withResolvers<void>();

  hear(raw: unknown): void {
    this.heard.push(FromService.parse(raw));
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async next<T extends FromService['t']>(t: T, withinMs = 5000): Promise<Said<T>> {
    return within(withinMs, this.#find(t), `a message ${t}`);
  }

  async #find<T extends FromService['t']>(t: T): Promise<Said<T>> {
    for (;;) {
      const found = this.heard.find(
        (message): message is Said<T> => message.t === t && !this.#taken.has(message),
      );
      if (found !== undefined) {
        this.#taken.add(found);
        return found;
      }
      await this.#changed.promise;
    }
  }
}

export type Connect = (url: string, key: string, first: object | undefined) => Promise<WireAgent>;

/** Opens a socket; `first` is said at once. */
export async function connectSocket(url: string, key: string, first: object | undefined): Promise<WireAgent> {
  const socket = openSocket(url, key);
  const ear = new Ear();
  socket.on('message', (data: Buffer) => ear.hear(JSON.parse(data.toString())));
  const closed = new Promise<Closed>((resolve) => {
    socket.on('close', (code, reason) => resolve({ code, reason: reason.toString() }));
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('open', resolve);
    socket.once('error', reject);
  });
  const sayRaw = (value: unknown): void => socket.send(JSON.stringify(value));
  if (first !== undefined) sayRaw(first);
  return {
    kind: 'socket',
    closed,
    heard: ear.heard,
    say: (t, d, more) => {
      const message = envelope(t, d, more);
      sayRaw(message);
      return message.id;
    },
    sayRaw,
    next: (t, withinMs) => ear.next(t, withinMs),
    vanish: () => socket.terminate(),
  };
}

export function openSocket(url: string, key: string): WebSocket {
  return new WebSocket(url.replace(/^http/, 'ws') + CONNECT_PATH, SUBPROTOCOL, {
    headers: { authorization: `Bearer ${key}` },
    perMessageDeflate: false,
  });
}

export async function post(url: string, key: string, body: unknown, signal?: AbortSignal): Promise<Response> {
  return fetch(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  });
}

/** Opens a long-poll session; `urls` are tried in turn, as behind a balancer. */
export async function connectPoll(
  urls: string | readonly string[],
  key: string,
  first: object | undefined,
): Promise<WireAgent> {
  const ear = new Ear();
  const { promise: closed, resolve: close } = Promise.withResolvers<Closed>();
  const stop = new AbortController();
  const replicas = typeof urls === 'string' ? [urls] : urls;
  let turn = 0;
  let sid = '';
  const exchange = async (path: string, body: object): Promise<boolean> => {
    const url = replicas[turn++ % replicas.length]!;
    const response = await post(url + path, key, body, stop.signal);
    if (response.status !== 200) {
      close({ code: response.status === 401 ? 4401 : response.status, reason: await response.text() });
      return false;
    }
    const reply = PollReply.parse(await response.json());
    for (const message of reply.messages) ear.hear(message);
    if (reply.close !== undefined) close(reply.close);
    return reply.close === undefined;
  };
  const quietly = (work: Promise<unknown>): void => {
    work.catch((error: unknown) => {
      if (!stop.signal.aborted) close({ code: 1006, reason: String(error) });
    });
  };
  const listen = async (): Promise<void> => {
    while (await exchange(`/agent/v1/sessions/${sid}/poll`, { messages: [], wait: true }));
  };
  let sending = Promise.resolve(true);
  const sayRaw = (value: unknown): void => {
    sending = sending.then(async () =>
      exchange(`/agent/v1/sessions/${sid}/poll`, { messages: [value], wait: false }),
    );
    quietly(sending);
  };
  if (first !== undefined && (await exchange('/agent/v1/sessions', { messages: [first] }))) {
    const welcome = ear.heard.find(({ t }) => t === 'welcome');
    if (welcome?.t === 'welcome') {
      ({ sid } = welcome.d);
      quietly(listen());
    }
  }
  return {
    kind: 'poll',
    closed,
    heard: ear.heard,
    say: (t, d, more) => {
      const message = envelope(t, d, more);
      sayRaw(message);
      return message.id;
    },
    sayRaw,
    next: (t, withinMs) => ear.next(t, withinMs),
    vanish: () => stop.abort(),
  };
}

/** A welcomed agent, its welcome, and its say with the epoch in it. */
export async function welcomed(
  connect: Connect,
  url: string,
  key: string,
  identity: Identity = {},
): Promise<{
  agent: WireAgent;
  sid: string;
  epoch: number;
  drop: object[];
  say: (t: string, d: object) => string;
}> {
  const agent = await connect(url, key, envelope('hello', helloOf(identity)));
  const { d } = await agent.next('welcome');
  return {
    agent,
    sid: d.sid,
    epoch: d.epoch,
    drop: d.drop,
    say: (t, body) => agent.say(t, body, { ep: d.epoch }),
  };
}

export const hello = (identity?: Identity): object => envelope('hello', helloOf(identity));
