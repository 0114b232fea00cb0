import { monoMs, sleep } from '../../kit/clock.ts';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { IcmpSocket, type Arrival } from './icmp-socket.ts';
import { INTERVAL_MS, LAST_WAIT_MS, NotPermitted, type PingOrder, type PingResult } from './ping.ts';

/** Between two looks at the socket while replies are expected. The kernel has stamped them meanwhile. */
const POLL_MS = 5;
/** The kernel starts to stamp packets a moment after the first socket asked for it. */
const STAMPING_STARTS_MS = 10;
const FORBIDDEN = new Set(['EACCES', 'EPERM', 'EPROTONOSUPPORT']);
/** Reported on the next call after an ICMP error came in; the error queue has it in full. */
const STALE_ERRORS = new Set(['EHOSTUNREACH', 'ENETUNREACH', 'ECONNREFUSED', 'EMSGSIZE']);

interface Waiting {
  result: PingResult;
  sentMs: number;
  /** On the monotonic clock, against which a step of the other one shows. */
  sentMonoMs: number;
}

/**
 * A socket that all pings of this process to one family share, open while any is under way. It is
 * looked at every 5 ms by a timer, which ends with the last ping.
 */
export class SharedSocket {
  readonly #family: 4 | 6;
  readonly #kind: 'datagram' | 'raw';
  #open: { socket: IcmpSocket; timer: NodeJS.Timeout; ready: Promise<void> } | undefined;
  #users = 0;
  #sequence = 0;
  readonly #waiting = new Map<number, Waiting>();

  constructor(family: 4 | 6, kind: 'datagram' | 'raw') {
    this.#family = family;
    this.#kind = kind;
  }

  /** @throws NotPermitted, or an Error with a `code` */
  async ping(order: PingOrder): Promise<PingResult[]> {
    const { socket, ready } = (this.#open ??= this.#start());
    this.#users++;
    const sent: number[] = [];
    try {
      await ready;
      return await this.#exchange(order, socket, sent);
    } finally {
      for (const sequence of sent) this.#waiting.delete(sequence);
      if (--this.#users === 0) this.#stop();
    }
  }

  async #exchange(order: PingOrder, socket: IcmpSocket, sent: number[]): Promise<PingResult[]> {
    const results: PingResult[] = [];
    const startedMs = monoMs();
    for (let index = 0; index < order.count; index++) {
      // By the clock, so that late timers do not add up.
      if (index > 0) await sleep(Math.max(0, startedMs + index * INTERVAL_MS - monoMs()), order.signal);
      order.signal.throwIfAborted();
      const result = unanswered(index + 1);
      results.push(result);
      sent.push(this.#send(socket, order.address, result));
    }
    const untilMs = monoMs() + LAST_WAIT_MS;
    const isSettled = (result: PingResult): boolean => result.type !== null;
    while (!results.every(isSettled) && monoMs() < untilMs) await sleep(POLL_MS, order.signal);
    this.#collect(socket);
    return results;
  }

  #send(socket: IcmpSocket, address: string, result: PingResult): number {
    const sequence = this.#freeSequence();
    const send = (): void => {
      const sentMs = socket.send(address, sequence);
      this.#waiting.set(sequence, { result, sentMs, sentMonoMs: monoMs() });
    };
    try {
      send();
    } catch (error) {
      if (!STALE_ERRORS.has(codeOf(error) ?? '')) throw error;
      this.#collect(socket);
      send();
    }
    return sequence;
  }

  #freeSequence(): number {
    do this.#sequence = (this.#sequence + 1) & 0xffff;
    while (this.#waiting.has(this.#sequence));
    return this.#sequence;
  }

  #collect(socket: IcmpSocket): void {
    for (const arrival of socket.drain()) {
      const waiting = this.#waiting.get(arrival.sequence);
      // The first news of a request counts; a duplicate says nothing new.
      if (!waiting || waiting.result.type !== null) continue;
      const { result } = waiting;
      result.type = arrival.type;
      result.code = arrival.code;
      result.success = arrival.isReply;
      result.ttl = arrival.ttl;
      if (arrival.isReply) result.rtt = roundTripMs(waiting, arrival);
    }
  }

  #start(): { socket: IcmpSocket; timer: NodeJS.Timeout; ready: Promise<void> } {
    const socket = openSocket(this.#family, this.#kind);
    const timer = setInterval(() => this.#collect(socket), POLL_MS);
    return { socket, timer, ready: sleep(STAMPING_STARTS_MS) };
  }

  #stop(): void {
    clearInterval(this.#open?.timer);
    this.#open?.socket.close();
    this.#open = undefined;
  }
}

function openSocket(family: 4 | 6, kind: 'datagram' | 'raw'): IcmpSocket {
  try {
    return new IcmpSocket(family, kind);
  } catch (error) {
    if (!FORBIDDEN.has(codeOf(error) ?? '')) throw error;
    throw new NotPermitted(`${kind} ICMP socket: ${messageOf(error)}`, { cause: error });
  }
}

const unanswered = (sequence: number): PingResult => ({
  sequence,
  success: false,
  type: null,
  code: null,
  rtt: null,
  ttl: null,
});

/** A step of the machine's clock between the two stamps would show as an impossible time. */
function roundTripMs({ sentMs, sentMonoMs }: Waiting, { atMs }: Arrival): number {
  const stampedMs = atMs - sentMs;
  const elapsedMs = monoMs() - sentMonoMs;
  const isPossible = stampedMs >= 0 && stampedMs <= elapsedMs + 1;
  return Math.round((isPossible ? stampedMs : elapsedMs) * 1000) / 1000;
}
