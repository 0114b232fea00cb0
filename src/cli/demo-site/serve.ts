import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { html, page } from './html.ts';
import { json, Refusal, type Answer, type Route, type Visit } from './visit.ts';

/** Uploads, the largest that is read at all. */
const MAX_BODY_BYTES = 1_000_000;
/** A body that is too large is thrown away up to here, so that its sender gets to read the answer. */
const MAX_DISCARDED_BYTES = 20_000_000;

/** Answers requests by the first route that fits; whatever is asked, there is an answer. */
export function serve(routes: readonly Route[]): RequestListener {
  return (request, response) => {
    // A visitor who hangs up half way is normal here.
    request.on('error', () => {});
    response.on('error', () => {});
    void answerOf(routes, request, response).then((answer) => send(response, answer));
  };
}

async function answerOf(
  routes: readonly Route[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<Answer> {
  try {
    const body = await readBody(request);
    const { pathname: path, searchParams: query } = addressOf(request);
    const method = request.method === 'HEAD' ? 'GET' : (request.method ?? '');
    const [answer, params] = findRoute(routes, method, path);
    const left = new AbortController();
    response.once('close', () => left.abort());
    const { headers } = request;
    const visit: Visit = { method, path, params, query, headers, body, left: left.signal };
    return await answer(visit);
  } catch (error) {
    const refusal = error instanceof Refusal ? error : new Refusal(500, 'The demo made a mistake.');
    return refused(request, refusal);
  }
}

function addressOf({ url = '/' }: IncomingMessage): URL {
  const address = url.startsWith('/') ? `http://demo${url}` : url;
  if (!URL.canParse(address)) throw new Refusal(400, 'This is no address.');
  return new URL(address);
}

function findRoute(
  routes: readonly Route[],
  method: string,
  path: string,
): [Route[2], Record<string, string>] {
  const fitting = routes.flatMap(([offered, pattern, answer]) => {
    const params = paramsOf(pattern, path);
    return params === undefined ? [] : [{ offered, answer, params }];
  });
  const found = fitting.find(({ offered }) => offered === method);
  if (found !== undefined) return [found.answer, found.params];
  if (fitting.length === 0) throw new Refusal(404, 'There is no such page.');
  const allow = fitting.map(({ offered }) => offered).join(', ');
  throw new Refusal(405, `This address takes ${allow}.`, { allow });
}

/** @returns undefined when the path does not fit the pattern */
function paramsOf(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')];
  if (wanted.length !== given.length) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index]!;
    if (!part.startsWith(':')) {
      if (part !== value) return undefined;
    } else {
      if (value === '') return undefined;
      params[part.slice(1)] = decoded(value);
    }
  }
  return params;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    throw new Refusal(400, 'This is no address.');
  }
}

function readBody(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = new Refusal(413, `A body may have ${MAX_BODY_BYTES} bytes.`, { connection: 'close' });
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
      else chunks.length = 0;
      if (bytes > MAX_DISCARDED_BYTES) reject(tooLarge);
    });
    request.on('end', () => (bytes > MAX_BODY_BYTES ? reject(tooLarge) : resolve(Buffer.concat(chunks))));
    request.on('close', () => reject(new Refusal(400, 'The body ended early.')));
  });
}

function refused(request: IncomingMessage, { status, message, headers }: Refusal): Answer {
  const answer = request.url?.startsWith('/api/')
    ? json(status, { error: message })
    : page(`Error ${status}`, html`<p role="alert">${message}</p>`, status);
  return { ...answer, headers: { ...answer.headers, ...headers } };
}

function send(response: ServerResponse, answer: Answer): void {
  if (response.destroyed) return;
  const { status, headers, body } = answer;
  const hasBody = status !== 204 && status !== 205 && status !== 304;
  response.writeHead(status, {
    ...(hasBody ? { 'content-length': Buffer.byteLength(body) } : {}),
    'x-content-type-options': 'nosniff',
    ...headers,
  });
  response.end(hasBody ? body : undefined);
}
