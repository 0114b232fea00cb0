import { AsyncResource } from 'node:async_hooks';
import dns, { type LookupAddress, type LookupOptions } from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';
import os from 'node:os';
import type { Asked, BrowserFailure, Told } from '../../egress/index.ts';
import type { WarmUp } from '../protocol.ts';

/**
 * Leads every TCP connection of this process through the agent's egress process, unseen by whoever opens
 * it. The connection goes to the gate and stays silent; a connection of our own says where it leads, and
 * only then its owner learns that it is open, or why not: with the error that a direct one would have had.
 * Names are asked for there as well. It works below node:net, where TLS, HTTP/2, fetch and the clients of
 * databases all come by, and leaves unix sockets alone.
 *
 * No wall: user code can undo it, and is held by the kernel's rule that the gate is all it can connect to.
 */
export function installNetwork(proxy: WarmUp['proxy']): void {
  if (proxy === null) return;
  const line = new Line(proxy.host, proxy.port);
  patchConnect(line);
  patchLookup(line);
  syncBuiltinESMExports();
}

/** What a browser of this process could not reach, since it does not say why itself. */
const failures: BrowserFailure[] = [];
const MAX_FAILURES = 500;

/**
 * Arguments of Chromium that lead it the same way. Playwright's own option would take the requests of its
 * contexts along, which come by here anyway and say more when they fail.
 */
export function browserArguments(proxy: WarmUp['proxy']): string[] {
  if (proxy === null) return [];
  return [
    `--proxy-server=socks5://${proxy.host}:${proxy.port}`,
    // Loopback is a target like others.
    '--proxy-bypass-list=<-loopback>',
    // Nothing of it is to be asked here: no datagram leaves this process.
    `--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE ${proxy.host}`,
  ];
}

const NET_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'net::ERR_CONNECTION_REFUSED',
  ECONNRESET: 'net::ERR_CONNECTION_RESET',
  ENOTFOUND: 'net::ERR_NAME_NOT_RESOLVED',
  EAI_AGAIN: 'net::ERR_NAME_RESOLUTION_FAILED',
  ETIMEDOUT: 'net::ERR_CONNECTION_TIMED_OUT',
  ENETUNREACH: 'net::ERR_ADDRESS_UNREACHABLE',
  EHOSTUNREACH: 'net::ERR_ADDRESS_UNREACHABLE',
};

/**
 * A browser's message in the words that it would have on a direct way: `page.goto:
 * net::ERR_CONNECTION_REFUSED at http://shop.example/`.
 */
export function namingBrowserFailure(message: string): string {
  return message.replace(
    /net::ERR_SOCKS_CONNECTION_(?:FAILED|HOST_UNREACHABLE)( at (\S+))?/g,
    (whole, where = '', url: string | undefined) => {
      const failure = url === undefined ? failures.at(-1) : failures.findLast((each) => leadsTo(each, url));
      if (failure === undefined) return whole;
      const { code, sentence } = failure;
      if (sentence !== null) return `${closedBy(code)}${where}: ${sentence}`;
      return `${NET_ERRORS[code] ?? `net::ERR_CONNECTION_FAILED (${code})`}${where}`;
    },
  );
}

const closedBy = (code: string): string =>
  code.startsWith('PROXY_') ? 'net::ERR_PROXY_CONNECTION_FAILED' : 'net::ERR_BLOCKED_BY_ADMINISTRATOR';

function leadsTo({ host, port }: BrowserFailure, text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const usual = url.protocol === 'https:' || url.protocol === 'wss:' ? 443 : 80;
  return url.hostname.replace(/^\[|\]$/g, '') === host && Number(url.port || usual) === port;
}

type Question = Asked extends infer Each ? (Each extends { n: number } ? Omit<Each, 'n'> : never) : never;
type Answer = Extract<Told, { n: number }>;

/** The connection on which is asked. It keeps the process alive while an answer is due. */
class Line {
  readonly host: string;
  readonly port: number;
  readonly #waiting = new Map<number, (answer: Answer | null) => void>();
  #socket: net.Socket | undefined;
  #last = 0;

  constructor(host: string, port: number) {
    this.host = host;
    this.port = port;
    this.#open();
  }

  /** The kind of handle that every connection has. */
  get handle(): object {
    return (this.#socket as unknown as { _handle: object })._handle;
  }

  /** `done` gets null when the egress process has ended. */
  ask(question: Question, done: (answer: Answer | null) => void): void {
    const socket = this.#socket ?? this.#open();
    const n = ++this.#last;
    this.#waiting.set(n, AsyncResource.bind(done));
    socket.ref();
    socket.write(`${JSON.stringify({ n, ...question })}\n`);
  }

  #open(): net.Socket {
    const socket = connect({ host: this.host, port: this.port, noDelay: true });
    let rest = '';
    socket.write('{}\n');
    socket.setEncoding('utf8').unref();
    socket.on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#receive(JSON.parse(line) as Told);
    });
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#socket = undefined;
      for (const n of this.#waiting.keys()) this.#settle(n, null);
    });
    return (this.#socket = socket);
  }

  #receive(told: Told): void {
    if (!('failed' in told)) return this.#settle(told.n, told);
    failures.push(told.failed);
    if (failures.length > MAX_FAILURES) failures.shift();
  }

  #settle(n: number, answer: Answer | null): void {
    const done = this.#waiting.get(n);
    this.#waiting.delete(n);
    if (this.#waiting.size === 0) this.#socket?.unref();
    done?.(answer);
  }
}

const { connect } = net;

interface ConnectRequest {
  oncomplete: ((status: number, ...rest: unknown[]) => void) | undefined;
}
type HandleConnect = (this: Handle, request: ConnectRequest, address: string, port: number) => number;
interface Handle {
  getsockname(out: object): number;
  getpeername(out: object): number;
}
interface HandleType {
  connect: HandleConnect;
  connect6: HandleConnect;
}

const ECONNRESET = -os.constants.errno.ECONNRESET;

function patchConnect(line: Line): void {
  const prototype = Object.getPrototypeOf(line.handle) as HandleType;
  const direct = prototype.connect;
  const tunnelled: HandleConnect = function (request, address, port) {
    if (address === line.host && port === line.port) return direct.call(this, request, address, port);
    const done = request.oncomplete;
    const wrapper: ConnectRequest['oncomplete'] = (status, ...rest) => {
      if (status !== 0) return done?.call(request, status, ...rest);
      const socket = ownerOf(this);
      const host = socket?._host ?? null;
      line.ask({ dial: localPortOf(this), host, address, port }, (answer) => {
        // Its owner went on to another address meanwhile.
        if (request.oncomplete !== wrapper) return;
        if (answer !== null && 'blocked' in answer) socket?.destroy(blockedError(answer, address, port));
        else if (answer !== null && 'connected' in answer) {
          showPeer(this, address, port);
          done?.call(request, 0, ...rest);
        } else done?.call(request, answer !== null && 'errno' in answer ? answer.errno : ECONNRESET, ...rest);
      });
    };
    request.oncomplete = wrapper;
    return direct.call(this, request, line.host, line.port);
  };
  prototype.connect = tunnelled;
  prototype.connect6 = tunnelled;
}

type Owner = net.Socket & { _host?: string | null };

/** Node keeps it under a symbol of its own. */
function ownerOf(handle: Handle): Owner | undefined {
  for (const key of Object.getOwnPropertySymbols(handle)) {
    const value = (handle as unknown as Record<symbol, unknown>)[key];
    if (value instanceof net.Socket) return value;
  }
  return undefined;
}

function localPortOf(handle: Handle): number {
  const out = { port: 0 };
  handle.getsockname(out);
  return out.port;
}

function showPeer(handle: Handle, address: string, port: number): void {
  handle.getpeername = (out) => {
    Object.assign(out, { address, port, family: net.isIP(address) === 6 ? 'IPv6' : 'IPv4' });
    return 0;
  };
}

function blockedError(
  { blocked, code }: Extract<Answer, { blocked: string }>,
  address: string,
  port: number,
): Error {
  return Object.assign(new Error(blocked), {
    code,
    syscall: 'connect',
    address,
    port,
  });
}

type LookupDone = (error: Error | null, address?: string | LookupAddress[], family?: number) => void;

function patchLookup(line: Line): void {
  const own = dns.lookup as (...args: unknown[]) => void;
  const lookup = (name: unknown, second: unknown, third?: unknown): void => {
    const done = (third ?? second) as LookupDone;
    // What needs no question, and what is not to be understood, is as it was.
    if (typeof name !== 'string' || name === '' || net.isIP(name) !== 0 || typeof done !== 'function') {
      return third === undefined ? own(name, second) : own(name, second, third);
    }
    const options = (
      typeof second === 'object' && second !== null ? second : { family: second }
    ) as LookupOptions;
    line.ask({ resolve: name, family: familyOf(options.family) }, (answer) => {
      if (answer === null || !('addresses' in answer)) return done(nameError(name, answer));
      const addresses = ordered(answer.addresses, options);
      if (options.all === true) done(null, addresses);
      else done(null, addresses[0]!.address, addresses[0]!.family);
    });
  };
  // util.promisify finds out by a symbol how its results are called.
  dns.lookup = Object.defineProperties(
    lookup,
    Object.getOwnPropertyDescriptors(dns.lookup),
  ) as typeof dns.lookup;
  const ownPromise = dns.promises.lookup as (...args: unknown[]) => Promise<unknown>;
  const lookupPromise = (name: unknown, options?: unknown): Promise<unknown> => {
    if (typeof name !== 'string' || name === '' || net.isIP(name) !== 0) return ownPromise(name, options);
    return new Promise((resolve, reject) => {
      const all = typeof options === 'object' && options !== null && (options as LookupOptions).all === true;
      lookup(name, options ?? {}, (error: Error | null, address: unknown, family: unknown) => {
        if (error !== null) reject(error);
        else resolve(all ? address : { address, family });
      });
    });
  };
  dns.promises.lookup = lookupPromise as typeof dns.promises.lookup;
}

const familyOf = (family: unknown): 0 | 4 | 6 =>
  family === 4 || family === 'IPv4' ? 4 : family === 6 || family === 'IPv6' ? 6 : 0;

function ordered(addresses: LookupAddress[], { order }: LookupOptions): LookupAddress[] {
  const first = order === 'ipv4first' ? 4 : order === 'ipv6first' ? 6 : 0;
  if (first === 0) return addresses;
  return addresses.toSorted((a, b) => Number(b.family === first) - Number(a.family === first));
}

function nameError(hostname: string, answer: Answer | null): Error {
  const code = answer !== null && 'nameError' in answer ? answer.nameError : 'EAI_AGAIN';
  const errno = code === 'ENOTFOUND' ? -3008 : -3001;
  return Object.assign(new Error(`getaddrinfo ${code} ${hostname}`), {
    errno,
    code,
    syscall: 'getaddrinfo',
    hostname,
  });
}
