import { newId } from '../../kit/ids.ts';
import type { FromService } from '../../contract/index.ts';

/** What carries a session's messages: a WebSocket or a long poll. The session cannot tell which. */
export interface Carrier {
  readonly kind: 'socket' | 'poll';
  /** True while an offer would leave at once. */
  ready(): boolean;
  /** One encoded message. After `close` it does nothing. */
  send(frame: string): void;
  close(code: number, reason: string): void;
}

type Data<T extends FromService['t']> = Extract<FromService, { t: T }>['d'];

/** Encodes a message of the service; `re` is the id of the message that it answers. */
export function encode<T extends FromService['t']>(t: T, d: Data<T>, re?: string): string {
  return JSON.stringify({ v: 1, t, id: newId(), re, d });
}
