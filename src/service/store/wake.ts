import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { backoffMs, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { newId } from '../../kit/ids.ts';
import type { Log } from '../../kit/log.ts';
import type { Topic } from '../ports.ts';

const CHANNEL = 'vedette_wake';
/** Least time between two NOTIFYs: each takes a lock over all commits of the server. */
const NOTIFY_GAP_MS = 50;
/** How often the listening connection proves that it is alive. */
const PROBE_MS = 30_000;

/** Carries wake-ups to every listener; each topic at most once per turn of the event loop. */
export interface WakeBus {
  wake(topic: Topic): void;
  onWake(listener: (topic: Topic) => void): () => void;
  close(): Promise<void>;
}

const isTopic = (text: string | undefined): text is Topic =>
  text !== undefined && /^(runs|session|agent|key):/.test(text);

/** For one process. */
export class LocalBus implements WakeBus {
  readonly #emitter = new EventEmitter<{ topic: [Topic] }>().setMaxListeners(0);
  #pending = new Set<Topic>();

  wake(topic: Topic): void {
    if (this.#pending.size === 0) setImmediate(() => this.#flush());
    this.#pending.add(topic);
  }

  #flush(): void {
    const topics = this.#pending;
    this.#pending = new Set();
    for (const topic of topics) this.#emitter.emit('topic', topic);
  }

  onWake(listener: (topic: Topic) => void): () => void {
    this.#emitter.on('topic', listener);
    return () => this.#emitter.off('topic', listener);
  }

  close(): Promise<void> {
    this.#emitter.removeAllListeners();
    return Promise.resolve();
  }
}

/**
 * For all processes on one PostgreSQL: the own process is told directly, the others by NOTIFY over a
 * connection that does nothing else. While that connection is down wake-ups to others are lost, which
 * costs them one poll interval.
 */
export class PostgresBus implements WakeBus {
  readonly #local = new LocalBus();
  readonly #sender = newId();
  readonly #stop = new AbortController();
  readonly #connect: () => pg.Client;
  readonly #log: Log;
  readonly #loop: Promise<void>;
  #client: pg.Client | undefined;
  #pending = new Set<Topic>();
  #timer: NodeJS.Timeout | undefined;

  constructor(connect: () => pg.Client, log: Log) {
    this.#connect = connect;
    this.#log = log;
    this.#loop = this.#listen();
  }

  wake(topic: Topic): void {
    this.#local.wake(topic);
    this.#pending.add(topic);
    this.#timer ??= setTimeout(() => void this.#notify(), NOTIFY_GAP_MS).unref();
  }

  onWake(listener: (topic: Topic) => void): () => void {
    return this.#local.onWake(listener);
  }

  async #notify(): Promise<void> {
    const topics = [...this.#pending];
    this.#pending = new Set();
    this.#timer = undefined;
    try {
      await this.#client?.query(`select pg_notify('${CHANNEL}', t) from unnest($1::text[]) t`, [
        topics.map((topic) => `${this.#sender} ${topic}`),
      ]);
    } catch (error) {
      this.#log.debug({ reason: messageOf(error) }, 'wake-up not sent');
    }
  }

  async #listen(): Promise<void> {
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; failures++) {
      const client = this.#connect();
      try {
        await this.#session(client, () => (failures = 0));
      } catch (error) {
        if (!signal.aborted) this.#log.warn({ reason: messageOf(error) }, 'wake-up connection lost');
      } finally {
        this.#client = undefined;
        // A half-open connection never confirms its end.
        await Promise.race([client.end().catch(() => undefined), sleep(1_000)]);
      }
      await sleep(backoffMs(failures, 250, 5_000), signal).catch(() => undefined);
    }
  }

  /** One connection from LISTEN to its end. */
  async #session(client: pg.Client, onOpen: () => void): Promise<void> {
    const { signal } = this.#stop;
    const ended = new AbortController();
    client.on('error', (error) => ended.abort(error));
    client.on('end', () => ended.abort(new Error('the server closed the connection')));
    client.on('notification', ({ payload = '' }) => {
      const [sender, topic] = payload.split(' ', 2);
      if (sender !== this.#sender && isTopic(topic)) this.#local.wake(topic);
    });
    await client.connect();
    await client.query(`listen ${CHANNEL}`);
    this.#client = client;
    onOpen();
    const until = AbortSignal.any([signal, ended.signal]);
    for (;;) {
      await sleep(PROBE_MS, until);
      await client.query('select 1');
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    clearTimeout(this.#timer);
    await this.#loop;
    await this.#local.close();
  }
}
