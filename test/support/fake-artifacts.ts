import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { OpenArtifact, PART_SHA256_HEADER } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';

/**
 * The service's end of an upload for tests of the agent: the contract's routes over real HTTP, parts in
 * memory, and a switch for each thing that can go wrong.
 */
export interface FakeArtifacts extends AsyncDisposable {
  readonly url: string;
  /** What is stored, by name. */
  readonly stored: Map<string, Buffer>;
  /** Requests in order: `POST /agent/v1/artifacts`, `PUT part 3`, `complete`. */
  readonly requests: string[];
  /** Parts that were being received at once, at most. */
  mostAtOnce: number;
  /** Called with each request's word; a status is answered instead of the usual, `cut` breaks the connection. */
  trouble: ((request: string) => number | 'cut' | 'hang' | undefined) | undefined;
  /** Bytes of parts that arrived, whole or not. */
  receivedBytes: number;
  /** Forgets a part that it has confirmed. */
  losePart(name: string, n: number): void;
}

interface Arriving {
  id: string;
  name: string;
  size: number;
  sha256: string;
  parts: Map<number, Buffer>;
}

export async function startFakeArtifacts(partBytes: number): Promise<FakeArtifacts> {
  const fake = new Fake(partBytes);
  await fake.listen();
  return fake;
}

class Fake implements FakeArtifacts {
  readonly stored = new Map<string, Buffer>();
  readonly requests: string[] = [];
  mostAtOnce = 0;
  trouble: FakeArtifacts['trouble'];
  receivedBytes = 0;
  readonly #partBytes: number;
  readonly #arriving = new Map<string, Arriving>();
  readonly #sockets = new Set<Socket>();
  #atOnce = 0;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  constructor(partBytes: number) {
    this.#partBytes = partBytes;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async listen(): Promise<void> {
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  losePart(name: string, n: number): void {
    for (const each of this.#arriving.values()) if (each.name === name) each.parts.delete(n);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts = (request.url ?? '').split('/');
    const what =
      parts.length < 5 ? 'open' : (parts[5] ?? 'get') === 'parts' ? `part ${parts[6]}` : 'complete';
    this.requests.push(what);
    const trouble = this.trouble?.(what);
    if (trouble === 'hang') return;
    if (trouble === 'cut') {
      // Some bytes in, so that the break is in the middle.
      request.once('data', () => request.socket.destroy());
      return;
    }
    this.mostAtOnce = Math.max(this.mostAtOnce, ++this.#atOnce);
    const body = await bodyOf(request).finally(() => this.#atOnce--);
    if (what.startsWith('part')) this.receivedBytes += body.length;
    if (trouble !== undefined) response.writeHead(trouble).end();
    else if (what === 'open') this.#open(response, body);
    else {
      const arriving = this.#arriving.get(parts[4] ?? '');
      if (arriving === undefined) response.writeHead(404).end();
      else if (what === 'complete') this.#complete(response, arriving);
      else this.#takePart(request, response, arriving, Number(parts[6]), body);
    }
  }

  #open(response: ServerResponse, body: Buffer): void {
    const asked = OpenArtifact.body.parse(JSON.parse(body.toString()));
    const id = `${asked.resultId}/${asked.name}`;
    const known = [...this.#arriving.values()].find((each) => each.id === id);
    const artifactId = [...this.#arriving].find(([, each]) => each.id === id)?.[0] ?? newId();
    const arriving = known ?? {
      id,
      name: asked.name,
      size: asked.size,
      sha256: asked.sha256,
      parts: new Map(),
    };
    this.#arriving.set(artifactId, arriving);
    answer(response, {
      artifactId,
      mode: 'service',
      partBytes: this.#partBytes,
      have: [...arriving.parts.keys()],
      state: this.stored.has(asked.name) ? 'stored' : 'open',
    });
  }

  #takePart(
    request: IncomingMessage,
    response: ServerResponse,
    { parts }: Arriving,
    n: number,
    body: Buffer,
  ): void {
    if (request.headers[PART_SHA256_HEADER] !== sha256(body)) response.writeHead(422).end();
    else {
      parts.set(n, body);
      response.writeHead(204).end();
    }
  }

  #complete(response: ServerResponse, arriving: Arriving): void {
    const count = Math.ceil(arriving.size / this.#partBytes);
    if (arriving.parts.size < count) {
      answer(response, { have: [...arriving.parts.keys()] }, 409);
      return;
    }
    const whole = Buffer.concat(Array.from({ length: count }, (_, i) => arriving.parts.get(i + 1)!));
    if (sha256(whole) === arriving.sha256) {
      this.stored.set(arriving.name, whole);
      answer(response, { state: 'stored' });
    } else {
      arriving.parts.clear();
      response.writeHead(422).end();
    }
  }
}

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

function answer(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}
