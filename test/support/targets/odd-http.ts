import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { listenOn } from './ports.ts';

/** What a page of the odd server does with a connection after one request head has arrived. */
type Page = (socket: net.Socket, request: RequestHead) => void | Promise<void>;

interface RequestHead {
  /** The head as it came, without the empty line. */
  text: string;
  method: string;
  target: string;
}

export interface OddHttp extends AsyncDisposable {
  port: number;
  host: string;
  /** Address of a page: `url('/chunked/trailers')`. */
  url(path: string): string;
  stop(): Promise<void>;
}

/** Every deliberate delay of these pages, ms: long against a busy machine's noise, short for a test. */
export const PAUSE_MS = 400;

const CRLF = '\r\n';
const TEXT = 'hello from the odd server\n';

/** The bytes of a response; a body gets its content-length unless `headers` says how it is framed. */
function response(status: string, headers: readonly string[] = [], body: string | Buffer = ''): Buffer {
  const framed = headers.some((each) => /^(content-length|transfer-encoding):/i.test(each));
  const lines = [
    `HTTP/1.1 ${status}`,
    ...headers,
    ...(framed ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
  ];
  return Buffer.concat([Buffer.from(lines.join(CRLF) + CRLF + CRLF, 'latin1'), Buffer.from(body)]);
}

const chunk = (text: string, extension = ''): string =>
  `${Buffer.byteLength(text).toString(16)}${extension}${CRLF}${text}${CRLF}`;

const answer =
  (...args: Parameters<typeof response>): Page =>
  (socket) =>
    void socket.write(response(...args));

/** Writes the bytes and closes: for answers whose end is the end of the connection. */
const lastWords =
  (bytes: string | Buffer): Page =>
  (socket) =>
    void socket.end(bytes, 'latin1');

const chunked = (body: string): Page => answer('200 OK', ['Transfer-Encoding: chunked'], body);
const redirect = (status: string, location: string): Page =>
  answer(status, [`Location: ${location}`], 'moved');
const encoded = (encoding: string, body: Buffer): Page =>
  answer('200 OK', ['Content-Type: text/plain', `Content-Encoding: ${encoding}`], body);

const corrupt = (body: Buffer): Buffer => Buffer.from(body).fill(0x55, Math.floor(body.length / 2));
const compressible = Buffer.from('a line that compresses well\n'.repeat(200));
const allBytes = Buffer.from(Array.from({ length: 1024 }, (_, i) => i % 256));

/** Waits, then goes on; gives up quietly when the client has left. */
async function after(socket: net.Socket, ms: number, then: () => void): Promise<void> {
  await delay(ms);
  if (!socket.destroyed) then();
}

async function drip(socket: net.Socket): Promise<void> {
  socket.write(response('200 OK', ['Content-Length: 10']));
  for (let i = 0; i < 10 && !socket.destroyed; i++) {
    await after(socket, PAUSE_MS / 10, () => socket.write(String(i)));
  }
}

/** Never finishes: a header line every 50 ms, so that no idle time-out ever fires. */
async function endlessHead(socket: net.Socket): Promise<void> {
  socket.write(`HTTP/1.1 200 OK${CRLF}`);
  for (let i = 0; !socket.destroyed; i++) {
    await after(socket, 50, () => socket.write(`X-Line-${i}: still going${CRLF}`));
  }
}

async function endlessBody(socket: net.Socket): Promise<void> {
  socket.write(response('200 OK', ['Transfer-Encoding: chunked']));
  while (!socket.destroyed) await after(socket, 50, () => socket.write(chunk('tick\n')));
}

const pages: Readonly<Record<string, Page>> = {
  '/ok': answer('200 OK', ['Content-Type: text/plain'], TEXT),
  '/echo': (socket, { text }) => void socket.write(response('200 OK', ['Content-Type: text/plain'], text)),
  '/http10/close': lastWords(`HTTP/1.0 200 OK${CRLF}Content-Type: text/plain${CRLF + CRLF}${TEXT}`),
  '/http10/length': lastWords(`HTTP/1.0 200 OK${CRLF}Content-Length: 5${CRLF + CRLF}hello`),
  '/http11/close': lastWords(`HTTP/1.1 200 OK${CRLF}Connection: close${CRLF + CRLF}${TEXT}`),
  '/chunked/plain': chunked(chunk('hello ') + chunk('world') + `0${CRLF + CRLF}`),
  '/chunked/trailers': chunked(`${chunk('hello')}0${CRLF}X-Checksum: 42${CRLF + CRLF}`),
  '/chunked/extensions': chunked(`${chunk('hello', ';name=value;flag')}0;last${CRLF + CRLF}`),
  '/chunked/bad-size': chunked(`zz${CRLF}hello${CRLF}0${CRLF + CRLF}`),
  '/chunked/no-end': lastWords(response('200 OK', ['Transfer-Encoding: chunked'], chunk('hello'))),
  '/chunked/one-byte-each': async (socket) => {
    socket.setNoDelay(true);
    socket.write(response('200 OK', ['Transfer-Encoding: chunked']));
    for (const letter of TEXT) await after(socket, 1, () => socket.write(chunk(letter)));
    socket.write(`0${CRLF + CRLF}`);
  },
  '/length/short': lastWords(response('200 OK', ['Content-Length: 100'], 'only this')),
  '/length/long': answer('200 OK', ['Content-Length: 5'], 'hello and more than promised'),
  '/length/not-a-number': lastWords(response('200 OK', ['Content-Length: five'], 'hello')),
  '/length/both': answer(
    '200 OK',
    ['Transfer-Encoding: chunked', 'Content-Length: 3'],
    `${chunk('hello')}0${CRLF + CRLF}`,
  ),
  '/interim/100': (socket) =>
    void socket.write(Buffer.concat([response('100 Continue', ['X: 1']), response('200 OK', [], TEXT)])),
  '/interim/103': async (socket) => {
    socket.write(`HTTP/1.1 103 Early Hints${CRLF}Link: </a.css>; rel=preload${CRLF + CRLF}`);
    await after(socket, PAUSE_MS, () => socket.write(response('200 OK', [], TEXT)));
  },
  '/encoding/gzip': encoded('gzip', gzipSync(compressible)),
  '/encoding/x-gzip': encoded('x-gzip', gzipSync(compressible)),
  '/encoding/deflate': encoded('deflate', deflateSync(compressible)),
  '/encoding/deflate-raw': encoded('deflate', deflateRawSync(compressible)),
  '/encoding/br': encoded('br', brotliCompressSync(compressible)),
  '/encoding/identity': encoded('identity', compressible),
  '/encoding/gzip-corrupt': encoded('gzip', corrupt(gzipSync(compressible))),
  '/encoding/gzip-cut': encoded('gzip', gzipSync(compressible).subarray(0, 40)),
  '/encoding/gzip-head': answer('200 OK', ['Content-Encoding: gzip', 'Content-Length: 0']),
  '/end/silent': (socket) => void socket.end(),
  '/end/reset': (socket) => void socket.resetAndDestroy(),
  '/end/reset-in-body': async (socket) => {
    socket.write(response('200 OK', ['Content-Length: 100'], 'only this'));
    await after(socket, 50, () => socket.resetAndDestroy());
  },
  '/end/half-head': lastWords(`HTTP/1.1 200 OK${CRLF}Content-Ty`),
  '/slow/first-byte': (socket) => after(socket, PAUSE_MS, () => socket.write(response('200 OK', [], TEXT))),
  '/slow/drip': drip,
  '/slow/never': () => undefined,
  '/slow/endless-head': endlessHead,
  '/slow/endless-body': endlessBody,
  '/redirect/loop': redirect('302 Found', '/redirect/loop'),
  '/redirect/relative': redirect('301 Moved Permanently', '../ok'),
  '/redirect/query': redirect('302 Found', '/echo?from=redirect&x=%20y'),
  '/redirect/no-location': answer('302 Found', [], 'where to?'),
  '/redirect/empty-location': redirect('302 Found', ''),
  '/redirect/bad-scheme': redirect('302 Found', 'gopher://127.0.0.1/'),
  '/redirect/not-a-url': redirect('302 Found', 'http://[::bad'),
  '/redirect/302': redirect('302 Found', '/echo'),
  '/redirect/303': redirect('303 See Other', '/echo'),
  '/redirect/307': redirect('307 Temporary Redirect', '/echo'),
  '/redirect/308': redirect('308 Permanent Redirect', '/echo'),
  '/redirect/300': redirect('300 Multiple Choices', '/echo'),
  '/status/204': answer('204 No Content', ['Content-Length: 0']),
  '/status/204-with-body': lastWords(response('204 No Content', ['Content-Length: 5'], 'hello')),
  '/status/304': answer('304 Not Modified', ['Content-Length: 500', 'ETag: "x"']),
  '/status/205': answer('205 Reset Content', ['Content-Length: 0']),
  '/status/299': answer('299 Odd', [], TEXT),
  '/status/599': answer('599 Odder', [], TEXT),
  '/status/999': answer('999 Oddest', [], TEXT),
  '/status/no-reason': lastWords(`HTTP/1.1 200${CRLF}Content-Length: 5${CRLF + CRLF}hello`),
  '/malformed/not-http': lastWords(`SSH-2.0-OpenSSH_9.2p1${CRLF}`),
  '/malformed/status-line': lastWords(`HTTP/1.1 OK${CRLF}Content-Length: 0${CRLF + CRLF}`),
  '/malformed/nul-in-header': lastWords(
    `HTTP/1.1 200 OK${CRLF}X-A: a\0b${CRLF}Content-Length: 0${CRLF + CRLF}`,
  ),
  '/malformed/line-feeds-only': lastWords('HTTP/1.1 200 OK\nContent-Length: 5\n\nhello'),
  '/headers/latin1': answer('200 OK', ['X-Name: caf\xe9'], TEXT),
  '/headers/folded': answer('200 OK', ['X-Folded: one', '  two'], TEXT),
  '/headers/12-kb': answer(
    '200 OK',
    Array.from({ length: 12 }, (_, i) => `X-${i}: ${'h'.repeat(1000)}`),
    TEXT,
  ),
  '/headers/64-kb': answer(
    '200 OK',
    Array.from({ length: 64 }, (_, i) => `X-${i}: ${'h'.repeat(1000)}`),
    TEXT,
  ),
  '/headers/flood': lastWords(response('200 OK', [`X-Flood: ${'h'.repeat(1024 * 1024)}`], TEXT)),
  '/binary': answer('200 OK', ['Content-Type: application/octet-stream'], allBytes),
  '/empty': answer('200 OK', ['Content-Length: 0']),
  '/pipelined-garbage': (socket) => void socket.write(response('200 OK', [], TEXT) + 'garbage garbage'),
};

/** Starts the server of odd bytes. A path that it does not know gets 404. */
export async function startOddHttp(host = '127.0.0.1'): Promise<OddHttp> {
  const open = new Set<net.Socket>();
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => undefined);
    // The client has closed: without this a half-open socket of an endless page would stay.
    socket.on('end', () => socket.end());
    readHead(socket, (head) => void serve(socket, head));
  });
  const port = await listenOn(server, host);
  const stop = async (): Promise<void> => {
    for (const socket of open) socket.destroy();
    server.close();
    if (server.listening) await once(server, 'close');
  };
  const authority = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return { port, host, url: (path) => `http://${authority}${path}`, stop, [Symbol.asyncDispose]: stop };
}

function serve(socket: net.Socket, head: RequestHead): void | Promise<void> {
  const path = head.target.replace(/[?#].*$/, '');
  const page = pages[path] ?? (path.startsWith('/echo') ? pages['/echo'] : undefined);
  return (page ?? answer('404 Not Found', [], `no page ${path}`))(socket, head);
}

function readHead(socket: net.Socket, then: (head: RequestHead) => void): void {
  let received = '';
  socket.on('data', (bytes: Buffer) => {
    received += bytes.toString('latin1');
    const end = received.indexOf(CRLF + CRLF);
    if (end < 0) return;
    const text = received.slice(0, end);
    // A body of a request is not waited for: these pages answer the head.
    received = '';
    const [method = '', target = ''] = text.split(CRLF, 1)[0]!.split(' ');
    if (/^[A-Z]+$/.test(method)) then({ text, method, target });
  });
}
