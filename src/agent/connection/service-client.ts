import type { Agent, AgentOptions, ClientRequest, IncomingMessage } from 'node:http';
import * as https from 'node:https';
import { Agent as PlainAgent, request } from '../../kit/node-http.ts';
import type { Reply } from '../ports.ts';
import { proxyFor, type ProxySettings } from '../../kit/proxies.ts';
import { tunnelAgent } from './tunnel.ts';

/** A reply of the service never needs more; a longer one is cut off as a fault. */
/** A download that stands still for so long is begun anew. */
const STALL_MS = 60_000;
const MAX_REPLY_BYTES = 8 * 1024 * 1024;

/**
 * HTTP to the service over few kept connections. One client carries the long poll, the results and,
 * by its agents, the socket: one proxy rule for all. node:http keeps the idle agent 18 MB smaller
 * than a client library would.
 */
export class ServiceClient {
  readonly #base: string;
  readonly #key: string;
  readonly #userAgent: string;
  readonly #request: typeof request;
  readonly #kept: Agent;
  /** Makes one connection per use; for sockets. */
  readonly fresh: Agent;
  readonly proxy: URL | undefined;

  constructor(options: { serviceUrl: string; apiKey: string; version: string; proxies: ProxySettings }) {
    const url = new URL(options.serviceUrl);
    this.#base = options.serviceUrl;
    this.#key = options.apiKey;
    this.#userAgent = `vedette-agent/${options.version}`;
    this.proxy = proxyFor(url, options.proxies);
    this.#request = url.protocol === 'https:' ? https.request : request;
    this.#kept = agentFor(url, this.proxy, { keepAlive: true, maxSockets: 8, keepAliveMsecs: 15_000 });
    this.fresh = agentFor(url, this.proxy, { keepAlive: false });
  }

  url(path: string): string {
    return this.#base + path;
  }

  get headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#key}`, 'user-agent': this.#userAgent };
  }

  /**
   * @returns any answer, whatever its status
   * @throws on a network fault, or the reason of `signal`
   */
  post(path: string, body: Buffer, headers: Record<string, string>, signal: AbortSignal): Promise<Reply> {
    return this.send('POST', path, body, headers, signal);
  }

  /**
   * As `post`. A body in pieces needs a `content-length`; it is asked for a piece once the last one was
   * written, so that a buffer can be used again.
   */
  async send(
    method: 'GET' | 'POST' | 'PUT',
    path: string,
    body: Buffer | AsyncIterable<Buffer>,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const length = Buffer.isBuffer(body) ? { 'content-length': body.length } : {};
    const request = this.#request(
      this.url(path),
      { method, agent: this.#kept, headers: { ...this.headers, ...headers, ...length }, signal },
      (response) => {
        readReply(response).then(resolve, reject);
      },
    );
    request.on('error', reject);
    if (Buffer.isBuffer(body)) request.end(body);
    else writePieces(request, body).catch(reject);
    try {
      return await promise;
    } catch (error) {
      signal.throwIfAborted();
      throw error;
    } finally {
      // An answer that came before the end of the body: the rest would be taken for the next request.
      if (!request.writableEnded) request.destroy();
    }
  }

  /**
   * A file of the service, piece by piece.
   *
   * @param take gets the body when the answer is 200
   * @throws on a network fault, what `take` throws, or the reason of `signal`
   */
  async download(
    path: string,
    take: (chunk: Buffer) => Promise<void>,
    signal: AbortSignal,
  ): Promise<{ status: number }> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const options = { method: 'GET', agent: this.#kept, headers: this.headers, signal };
    const request = this.#request(this.url(path), options, resolve);
    request
      .on('error', reject)
      .setTimeout(STALL_MS, () => request.destroy(new Error('the service is silent')));
    request.end();
    const response = await promise;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        if (response.statusCode === 200) await take(chunk);
      }
    } finally {
      request.destroy();
    }
    return { status: response.statusCode ?? 0 };
  }

  close(): void {
    this.#kept.destroy();
    this.fresh.destroy();
  }
}

function agentFor(url: URL, proxy: URL | undefined, options: AgentOptions): Agent {
  if (proxy !== undefined) return tunnelAgent(url, proxy, options);
  return url.protocol === 'https:' ? new https.Agent(options) : new PlainAgent(options);
}

async function writePieces(request: ClientRequest, pieces: AsyncIterable<Buffer>): Promise<void> {
  const { promise: closed, resolve: close } = Promise.withResolvers<void>();
  request.once('close', close);
  for await (const piece of pieces) {
    const { promise: written, resolve: done } = Promise.withResolvers<void>();
    request.write(piece, () => done());
    await Promise.race([written, closed]);
    if (request.destroyed) return;
  }
  request.end();
}

async function readReply(response: IncomingMessage): Promise<Reply> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > MAX_REPLY_BYTES) throw new Error('the answer of the service is too long');
    chunks.push(chunk);
  }
  return {
    status: response.statusCode ?? 0,
    retryAfterMs: retryAfter(response.headers['retry-after']),
    body: Buffer.concat(chunks),
  };
}

function retryAfter(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const seconds = Number(value);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}
