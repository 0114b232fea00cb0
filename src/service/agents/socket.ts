import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer, type RawData } from 'ws';
import { messageOf } from '../../kit/errors.ts';
import { CloseCode, CONNECT_PATH, MAX_FRAME_BYTES, SUBPROTOCOL } from '../../contract/index.ts';
import type { KeyHolder } from '../store/index.ts';
import type { Carrier } from './carrier.ts';
import type { Conversation } from './conversation.ts';
import type { Door } from './door.ts';
import type { GatewayLimits } from './limits.ts';

/** The WebSocket carrier: upgrades, liveness, and one conversation per socket. */
export class Sockets {
  readonly #door: Door;
  readonly #limits: GatewayLimits;
  // Compression stays off: its per-socket memory fragments in a process that lives for months.
  readonly #server = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    clientTracking: true,
    handleProtocols: (offered) => (offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false),
  });

  constructor(door: Door, limits: GatewayLimits) {
    this.#door = door;
    this.#limits = limits;
  }

  attach(server: Server): void {
    server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
      // An upgraded socket without a listener would end the process when its peer resets it.
      socket.on('error', () => socket.destroy());
      this.#upgrade(request, socket, head).catch((error: unknown) => {
        this.#door.log.warn({ error: messageOf(error) }, 'upgrade failed');
        refuse(socket, 503, 'The service cannot check keys now.');
      });
    });
  }

  /** Settles when every socket is closed; cuts those that are not after `waitMs`. */
  async closed(waitMs: number): Promise<void> {
    const sockets = [...this.#server.clients];
    const cut = setTimeout(() => sockets.forEach((socket) => socket.terminate()), waitMs);
    await Promise.all(
      sockets.map(async (socket) => {
        if (socket.readyState === WebSocket.CLOSED) return;
        await new Promise<void>((resolve) => socket.once('close', () => resolve()));
      }),
    );
    clearTimeout(cut);
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const path = request.url?.split('?', 1)[0];
    if (path !== CONNECT_PATH) return refuse(socket, 404, `Agents connect at ${CONNECT_PATH}.`);
    if (this.#door.leaving) return refuse(socket, 503, 'The service is going away.');
    const holder = await this.#door.keys.holderOf(request.headers.authorization);
    if (holder === undefined) return refuse(socket, 401, this.#door.badKey);
    if (socket.destroyed) return;
    this.#server.handleUpgrade(request, socket, head, (opened) => this.#opened(opened, holder));
  }

  #opened(socket: WebSocket, holder: KeyHolder): void {
    const carrier = new SocketCarrier(socket, this.#limits, (code) => this.#door.closed(code));
    socket.on('error', () => socket.terminate());
    if (!this.#door.enter()) {
      carrier.close(CloseCode.tooMany, 'too many agents are connecting at once');
      return;
    }
    const conversation = this.#door.converse(holder, carrier);
    const slow = setTimeout(
      () => carrier.close(CloseCode.badMessage, `no hello within ${this.#limits.helloMs} ms`),
      this.#limits.helloMs,
    );
    let entering = true;
    const entered = (): void => {
      if (entering) this.#door.entered();
      entering = false;
      clearTimeout(slow);
    };
    const beating = heartbeat(socket, this.#limits.pingEveryMs);
    socket.on('message', (data, isBinary) => {
      void this.#read(conversation, socket, data, isBinary).then(() => {
        if (conversation.session !== undefined) entered();
      });
    });
    socket.on('close', () => {
      clearInterval(beating);
      entered();
      conversation.end();
    });
  }

  /** Reads on only when the agent's earlier messages have been handled. */
  async #read(conversation: Conversation, socket: WebSocket, data: RawData, binary: boolean): Promise<void> {
    const handled =
      binary || !Buffer.isBuffer(data)
        ? conversation.receiveGarbage('frames are text')
        : conversation.receiveText(data.toString('utf8'));
    if (conversation.waiting > this.#limits.inbox) socket.pause();
    await handled;
    if (socket.isPaused && conversation.waiting < this.#limits.inbox / 2) socket.resume();
  }
}

class SocketCarrier implements Carrier {
  readonly kind = 'socket';
  readonly #socket: WebSocket;
  readonly #limits: GatewayLimits;
  readonly #closed: (code: number) => void;

  constructor(socket: WebSocket, limits: GatewayLimits, closed: (code: number) => void) {
    this.#socket = socket;
    this.#limits = limits;
    this.#closed = closed;
  }

  ready(): boolean {
    const { readyState, bufferedAmount } = this.#socket;
    return readyState === WebSocket.OPEN && bufferedAmount < this.#limits.sendBusyBytes;
  }

  send(frame: string): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    if (this.#socket.bufferedAmount > this.#limits.sendStuckBytes) this.#socket.terminate();
    else this.#socket.send(frame);
  }

  close(code: number, reason: string): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#closed(code);
    // A reason has room for 123 bytes. A peer that does not answer the close is cut by ws after 30 s.
    this.#socket.close(code, reason.slice(0, 120));
    this.#socket.resume();
  }
}

/** Pings the peer; ends a socket whose peer has not answered the ping before. */
function heartbeat(socket: WebSocket, everyMs: number): NodeJS.Timeout {
  let alive = true;
  socket.on('pong', () => {
    alive = true;
  });
  return setInterval(() => {
    if (!alive) return socket.terminate();
    alive = false;
    socket.ping();
  }, everyMs);
}

const REASONS: Record<number, string> = {
  401: 'Unauthorized',
  404: 'Not Found',
  503: 'Service Unavailable',
};

/** Answers an upgrade over plain HTTP, with the error body of the interface. */
function refuse(socket: Duplex, statusCode: number, message: string): void {
  const error = REASONS[statusCode] ?? 'Error';
  const body = JSON.stringify({ statusCode, error, message });
  const head = [
    `HTTP/1.1 ${statusCode} ${error}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    ...(statusCode === 503 ? ['retry-after: 1'] : []),
    'connection: close',
  ];
  if (!socket.destroyed) socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
