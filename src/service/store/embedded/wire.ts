import { Duplex } from 'node:stream';
import type { Worker } from 'node:worker_threads';
import type { FromDatabase, ToDatabase } from './protocol.ts';

const TERMINATE = 'X'.charCodeAt(0);
const READY_FOR_QUERY = 'Z'.charCodeAt(0);
const IDLE = 'I'.charCodeAt(0);
/** As on PostgreSQL: a transaction that its owner forgot would block everything else. */
const IDLE_IN_TRANSACTION_MS = 10_000;

/** What the PostgreSQL driver takes for a socket: a connection to the database thread. */
export class Wire extends Duplex {
  readonly #id: number;
  readonly #worker: Promise<Worker>;
  #port: Worker | undefined;
  #forgotten: NodeJS.Timeout | undefined;

  constructor(id: number, worker: Promise<Worker>) {
    super();
    this.#id = id;
    this.#worker = worker;
  }

  /** Called by the driver with a port and host that mean nothing here. */
  connect(): this {
    this.#worker.then(
      (worker) => {
        this.#port = worker;
        worker.on('message', this.#receive).once('exit', this.#lost);
        this.emit('connect');
      },
      (error: Error) => this.destroy(error),
    );
    return this;
  }

  setNoDelay(): this {
    return this;
  }
  setKeepAlive(): this {
    return this;
  }
  ref(): this {
    return this;
  }
  unref(): this {
    return this;
  }

  readonly #lost = (): void => {
    this.destroy(new Error('the embedded database stopped'));
  };

  readonly #receive = (message: FromDatabase): void => {
    if (!('wire' in message) || message.wire !== this.#id) return;
    if (message.kind === 'failed') {
      this.destroy(new Error(`embedded database: ${message.why}`));
      return;
    }
    const bytes = Buffer.from(message.bytes.buffer, message.bytes.byteOffset, message.bytes.byteLength);
    clearTimeout(this.#forgotten);
    if (isInTransaction(bytes)) this.#watchTransaction();
    this.push(bytes);
  };

  #watchTransaction(): void {
    this.#forgotten = setTimeout(
      () => this.destroy(new Error(`a transaction was idle for ${IDLE_IN_TRANSACTION_MS / 1000} s`)),
      IDLE_IN_TRANSACTION_MS,
    ).unref();
  }

  #send(bytes: Uint8Array): void {
    clearTimeout(this.#forgotten);
    if (bytes[0] === TERMINATE) {
      this.push(null);
      return;
    }
    // An exact copy: cloning a view would copy the whole buffer behind it.
    const copy = Uint8Array.from(bytes);
    const message: ToDatabase = { kind: 'bytes', wire: this.#id, bytes: copy };
    this.#port?.postMessage(message, [copy.buffer]);
  }

  override _read(): void {
    // Answers are pushed as they come; their size is bounded by what was asked.
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#send(chunk);
    done();
  }

  /** Parse, bind, describe, execute and sync of one statement travel as one message. */
  override _writev(chunks: { chunk: Buffer }[], done: () => void): void {
    this.#send(Buffer.concat(chunks.map(({ chunk }) => chunk)));
    done();
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#forgotten);
    this.#port?.off('message', this.#receive).off('exit', this.#lost);
    done(error);
  }
}

/** ReadyForQuery is the last message of an answer: `Z`, length 5, status. */
function isInTransaction(bytes: Buffer): boolean {
  const start = bytes.length - 6;
  return start >= 0 && bytes[start] === READY_FOR_QUERY && bytes[start + 5] !== IDLE;
}
