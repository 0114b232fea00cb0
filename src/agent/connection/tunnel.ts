import type * as http from 'node:http';
import * as https from 'node:https';
import type { Duplex } from 'node:stream';
import * as tls from 'node:tls';
import { Agent, request } from '../../kit/node-http.ts';

type Done = (error: Error | null, stream: Duplex) => void;

const CONNECT_TIMEOUT_MS = 15_000;

/**
 * Connections to the service through an HTTP proxy: CONNECT for http:// addresses too, because a proxy
 * that forwards plain requests drops the upgrade of a WebSocket.
 */
export function tunnelAgent(target: URL, proxy: URL, options: https.AgentOptions): https.Agent | http.Agent {
  return target.protocol === 'https:' ? new SecureTunnel(proxy, options) : new PlainTunnel(proxy, options);
}

class PlainTunnel extends Agent {
  readonly #proxy: URL;
  constructor(proxy: URL, options: http.AgentOptions) {
    super(options);
    this.#proxy = proxy;
  }
  override createConnection(options: http.ClientRequestArgs, done: Done): undefined {
    openTunnel(this.#proxy, addressOf(options), done);
  }
}

class SecureTunnel extends https.Agent {
  readonly #proxy: URL;
  constructor(proxy: URL, options: https.AgentOptions) {
    super(options);
    this.#proxy = proxy;
  }
  override createConnection(options: https.RequestOptions & tls.ConnectionOptions, done: Done): undefined {
    openTunnel(this.#proxy, addressOf(options), (error, socket) => {
      if (error !== null) done(error, socket);
      else
        done(null, tls.connect({ ...options, socket, servername: options.servername ?? options.host ?? '' }));
    });
  }
}

function addressOf(options: http.ClientRequestArgs): string {
  const host = options.host ?? 'localhost';
  return `${host.includes(':') ? `[${host}]` : host}:${options.port ?? 443}`;
}

/** Asks the proxy for a way to `address`, host:port. */
export function openTunnel(proxy: URL, address: string, done: Done): void {
  const ask = (proxy.protocol === 'https:' ? https.request : request)({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
    method: 'CONNECT',
    path: address,
    agent: false,
    headers: { host: address, ...authorization(proxy) },
    timeout: CONNECT_TIMEOUT_MS,
  });
  const fail = (message: string, cause?: unknown): void => {
    ask.destroy();
    done(new Error(message, { cause }), undefined as never);
  };
  ask.once('connect', (response, socket, head) => {
    socket.setTimeout(0);
    if (response.statusCode !== 200) {
      socket.destroy();
      fail(`the proxy ${proxy.host} answered ${response.statusCode} to CONNECT ${address}`);
      return;
    }
    if (head.length > 0) socket.unshift(head);
    done(null, socket);
  });
  ask.once('timeout', () => fail(`the proxy ${proxy.host} did not answer to CONNECT ${address}`));
  ask.once('response', (r) => fail(`the proxy ${proxy.host} answered ${r.statusCode} to CONNECT ${address}`));
  ask.once('error', (error) => fail(`the proxy ${proxy.host} cannot be used: ${error.message}`, error));
  ask.end();
}

function authorization(proxy: URL): Record<string, string> {
  if (proxy.username === '') return {};
  const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`;
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` };
}
