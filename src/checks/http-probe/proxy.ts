import { request as httpRequest } from '../../kit/node-http.ts';
import type { Socket } from 'node:net';
import { messageOf } from '../../kit/errors.ts';
import { AgentFault } from '../check-type.ts';
import { TargetFailure } from './failure.ts';

/** The location's proxy. Its faults are the agent's: it is the customer's infrastructure, not the target. */
export interface Proxy {
  /** `http:` or `https:`: how the proxy itself is spoken to. */
  protocol: string;
  host: string;
  port: number;
  /** `http://proxy.example:3128`, without credentials, for messages. */
  name: string;
  /** Value of Proxy-Authorization, or null. */
  authorization: string | null;
}

/** @throws AgentFault PROXY_INVALID */
export function parseProxy(proxyUrl: string): Proxy {
  const url = URL.canParse(proxyUrl) ? new URL(proxyUrl) : null;
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:') || url.hostname === '') {
    throw new AgentFault(
      'PROXY_INVALID',
      "the location's proxyUrl must be http://host:port or https://host:port",
    );
  }
  return {
    protocol: url.protocol,
    host: hostOf(url),
    port: portOf(url),
    name: `${url.protocol}//${url.host}`,
    authorization: basicOf(url),
  };
}

export function portOf(url: URL): number {
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
}

/** Host without the brackets of an IPv6 address. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '');
}

/** Credentials of a URL as the value of an Authorization header, or null. */
export function basicOf(url: URL): string | null {
  if (url.username === '' && url.password === '') return null;
  return basicAuthorization(decoded(url.username), decoded(url.password));
}

export function basicAuthorization(username: string, password: string): string {
  return `Basic ${Buffer.from(`${username}:${password}`, 'utf8').toString('base64')}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Asks the proxy on `socket` for a tunnel to `authority` (host:port).
 *
 * @throws TargetFailure when the proxy says that it cannot reach the target (502, 503, 504)
 * @throws AgentFault when the proxy refuses us or does not do its part
 */
export function openTunnel(socket: Socket, proxy: Proxy, authority: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({
      method: 'CONNECT',
      path: authority,
      headers: [
        'Host',
        authority,
        ...(proxy.authorization ? ['Proxy-Authorization', proxy.authorization] : []),
      ],
      createConnection: () => socket,
    });
    request.once('connect', (response, tunnel: Socket, head: Buffer) => {
      const status = response.statusCode ?? 0;
      if (status >= 200 && status < 300) {
        if (head.length > 0) tunnel.unshift(head);
        resolve(tunnel);
      } else reject(refusal(proxy, authority, status, response.statusMessage ?? ''));
    });
    request.once('error', (error) => reject(proxyUnreachable(proxy, error)));
    request.end();
  });
}

export function proxyUnreachable(proxy: Proxy, cause: unknown): AgentFault {
  return new AgentFault(
    'PROXY_UNREACHABLE',
    `the proxy ${proxy.name} cannot be used: ${messageOf(cause)}`,
    {},
    {
      cause,
    },
  );
}

export function proxyRefuses(proxy: Proxy): AgentFault {
  return new AgentFault(
    'PROXY_AUTHENTICATION',
    `the proxy ${proxy.name} does not accept the credentials (407)`,
  );
}

function refusal(proxy: Proxy, authority: string, status: number, text: string): Error {
  const answer = `${status} ${text}`.trim();
  if (status === 407) return proxyRefuses(proxy);
  if (status === 502 || status === 503 || status === 504) {
    const message = `the proxy ${proxy.name} cannot reach ${authority}: it answered ${answer}`;
    return new TargetFailure('PROXY_CONNECT_FAILED', message, true);
  }
  return new AgentFault(
    'PROXY_REFUSED',
    `the proxy ${proxy.name} refuses a tunnel to ${authority}: it answered ${answer}`,
  );
}
