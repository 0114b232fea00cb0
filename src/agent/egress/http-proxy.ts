import type { Socket } from 'node:net';
import { codeOf } from '../../kit/errors.ts';
import { reach, type Ways } from './browser.ts';
import type { SocksTarget } from './socks.ts';
import { splice } from './splice.ts';

interface Parts extends Ways {
  /** The program has said where it wants to go. */
  onRequest(): void;
}

const END_OF_HEAD = '\r\n\r\n';
const MAX_HEAD_BYTES = 64 * 1024;
const DEFAULT_PORT = 80;

interface Request {
  target: SocksTarget;
  /** What the target gets first; empty for a tunnel. */
  head: string;
  isTunnel: boolean;
}

/**
 * One connection of a program that is no Node program: package managers that are native ones. A tunnel, or one
 * request in the clear, after which the connection ends.
 */
export function serveHttpProxy(socket: Socket, parts: Parts): void {
  let bytes: Buffer = Buffer.alloc(0);
  const answer = (status: string): void => {
    socket.end(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\nconnection: close${END_OF_HEAD}`, () =>
      socket.destroy(),
    );
  };
  const onEnd = (): void => void socket.destroy();
  const onData = (more: Buffer): void => {
    bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
    const end = bytes.indexOf(END_OF_HEAD);
    if (end < 0)
      return bytes.length > MAX_HEAD_BYTES ? answer('431 Request Header Fields Too Large') : undefined;
    socket.off('data', onData).pause();
    const rest = bytes.subarray(end + END_OF_HEAD.length);
    const request = requestIn(bytes.subarray(0, end).toString('latin1'));
    if (request === null) return answer('400 Bad Request');
    parts.onRequest();
    reach(request.target, parts, 'script').then(
      (target) => {
        socket.off('end', onEnd);
        if (request.isTunnel) socket.write(`HTTP/1.1 200 Connection established${END_OF_HEAD}`);
        else target.write(request.head, 'latin1');
        if (rest.length > 0) target.write(rest);
        splice(socket, target);
      },
      (error: unknown) =>
        answer(codeOf(error) === 'ERR_TARGET_BLOCKED' ? '403 Forbidden' : '502 Bad Gateway'),
    );
  };
  socket.on('end', onEnd).on('data', onData).resume();
}

/** Headers that are meant for the proxy. */
const OF_PROXY = /^(proxy-[\w-]+|connection|keep-alive):/i;

function requestIn(head: string): Request | null {
  const [line = '', ...headers] = head.split('\r\n');
  const [method = '', address = '', version = ''] = line.split(' ');
  if (method === 'CONNECT') {
    const target = targetOf(`http://${address}`);
    return target === null ? null : { target, head: '', isTunnel: true };
  }
  const target = address.startsWith('http://') ? targetOf(address) : null;
  if (target === null || !version.startsWith('HTTP/1.')) return null;
  const { pathname, search } = new URL(address);
  const kept = headers.filter((header) => !OF_PROXY.test(header));
  const lines = [`${method} ${pathname}${search} ${version}`, ...kept, 'connection: close'];
  return { target, head: lines.join('\r\n') + END_OF_HEAD, isTunnel: false };
}

function targetOf(address: string): SocksTarget | null {
  if (!URL.canParse(address)) return null;
  const { hostname, port } = new URL(address);
  const host = hostname.replace(/^\[|\]$/g, '');
  return host === '' ? null : { host, port: port === '' ? DEFAULT_PORT : Number(port) };
}
