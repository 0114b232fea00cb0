/**
 * Messages between the main thread and the database thread. `wire` numbers the connections that the
 * driver opens one after another; the database drops whatever the former one left unfinished.
 */
export type ToDatabase = { kind: 'bytes'; wire: number; bytes: Uint8Array } | { kind: 'close' };

export type FromDatabase =
  | { kind: 'open' }
  | { kind: 'refused'; why: string }
  | { kind: 'bytes'; wire: number; bytes: Uint8Array }
  | { kind: 'failed'; wire: number; why: string }
  | { kind: 'closed' };

/** PostgreSQL's frontend message for one simple query. */
export function queryMessage(sql: string): Uint8Array {
  const text = Buffer.from(`${sql}\0`);
  const message = Buffer.alloc(5 + text.length);
  message.write('Q');
  message.writeInt32BE(4 + text.length, 1);
  text.copy(message, 5);
  return message;
}
