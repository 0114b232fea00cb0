import { createServer, type Server, type Socket } from 'node:net';
import { Arrivals, type Arrival } from './arrivals.ts';
import { serveBrowser } from './browser.ts';
import type { Refusal } from './channel.ts';
import type { Dialer, Way } from './dialer.ts';
import { Findings } from './findings.ts';
import { serveHttpProxy } from './http-proxy.ts';
import { ProxyWay } from './proxy-way.ts';
import { serveQuestions } from './questions.ts';
import { SOCKS_VERSION } from './socks.ts';

/** For a connection to be told where it leads, in any of its ways. */
const ARRIVAL_MS = 10_000;
const MAX_CONNECTIONS = 1_024;
const FIRST_BYTE_OF_JSON = '{'.charCodeAt(0);
/** Methods are capital letters. */
const FIRST_BYTES_OF_HTTP = ['A'.charCodeAt(0), 'Z'.charCodeAt(0)] as const;

/**
 * The port of one script process. Four kinds of connections come in: those on which it asks (they begin
 * with a brace), those of a browser (SOCKS5), those of programs that know proxies for HTTP only, and silent
 * ones, which lead wherever was asked for the port that they come from. All of them end with the gate.
 */
export class Gate {
  port = 0;
  readonly #dialer: Dialer;
  readonly #noProxy: string;
  #way: Way;
  readonly #findings: Findings;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #arrivals = new Arrivals();

  /** @param onRefused told each refusal once */
  constructor(dialer: Dialer, noProxy: string, onRefused: (refusal: Refusal) => void) {
    this.#dialer = dialer;
    this.#noProxy = noProxy;
    this.#way = dialer;
    this.#findings = new Findings(onRefused);
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#accept(socket));
    this.#server.maxConnections = MAX_CONNECTIONS;
  }

  /** @param port 0 for any that is free */
  listen(port: number): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', () => {
        const address = this.#server.address();
        this.port = typeof address === 'object' && address !== null ? address.port : 0;
        resolve(this.port);
      });
    });
  }

  /**
   * Through a proxy, or directly.
   *
   * @param direct what the proxy is not for besides what it is never for
   */
  lead(proxyUrl: string | null, direct: string): void {
    const noProxy = `${this.#noProxy} ${direct}`;
    this.#way = proxyUrl === null ? this.#dialer : new ProxyWay(this.#dialer, proxyUrl, noProxy);
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(socket: Socket): void {
    const { remotePort: port } = socket;
    if (port === undefined) return void socket.destroy();
    const gone = new AbortController();
    const timer = setTimeout(() => socket.destroy(), ARRIVAL_MS);
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.once('close', () => {
      clearTimeout(timer);
      this.#sockets.delete(socket);
      gone.abort();
    });
    // Its owner gave it up, or speaks before it is spoken for.
    const onEnd = (): void => void socket.destroy();
    const stopReading = (): Socket => socket.off('data', onFirst).off('end', onEnd).pause();
    const arrival: Arrival = {
      socket,
      port,
      gone: gone.signal,
      hand: () => {
        clearTimeout(timer);
        return stopReading();
      },
    };
    const onFirst = (bytes: Buffer): void => {
      const isWaiting = this.#arrivals.remove(arrival);
      stopReading();
      if (!isWaiting) socket.destroy();
      else this.#serve(socket, bytes, gone.signal, timer);
    };
    socket.on('data', onFirst).on('end', onEnd);
    this.#arrivals.add(arrival);
  }

  #serve(socket: Socket, first: Buffer, gone: AbortSignal, timer: NodeJS.Timeout): void {
    socket.unshift(first);
    const parts = { way: () => this.#way, findings: this.#findings, gone };
    if (first[0] === FIRST_BYTE_OF_JSON) {
      clearTimeout(timer);
      serveQuestions(socket, { ...parts, arrivals: this.#arrivals });
    } else if (first[0] === SOCKS_VERSION) {
      serveBrowser(socket, { ...parts, onRequest: () => clearTimeout(timer) });
    } else if (first[0]! >= FIRST_BYTES_OF_HTTP[0] && first[0]! <= FIRST_BYTES_OF_HTTP[1]) {
      serveHttpProxy(socket, { ...parts, onRequest: () => clearTimeout(timer) });
    } else socket.destroy();
  }
}
