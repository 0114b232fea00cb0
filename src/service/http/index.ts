/**
 * The REST interface over HTTP: authentication, reading and checking of requests, error bodies, the
 * OpenAPI document, health and metrics. Routes are values (resources/); each names its schemas once,
 * and they check the request and make the document. Hides fastify. Decides nothing: verbs do.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { timingSafeEqual } from 'node:crypto';
import { messageOf } from '../../kit/errors.ts';
import { hashSecret } from '../../kit/ids.ts';
import type { ServiceContext } from '../ports.ts';
import { accountOfToken, Authenticator, Refusal, type Caller } from '../verbs/index.ts';
import { errorBody, refusalBody } from './errors.ts';
import { FileAnswer } from './file-answer.ts';
import { readJson, unpacked } from './json-body.ts';
import type { Metrics } from './metrics.ts';
import { openApiDocument } from './openapi.ts';
import { RateLimit } from './rate-limit.ts';
import { routes } from './resources/index.ts';
import type { Route } from './route.ts';

export { Metrics } from './metrics.ts';

/** Largest body of the interface, bytes. */
const MAX_BODY_BYTES = 1024 * 1024;
/** A request must have arrived whole by then, so that slow writers do not pile up. */
const REQUEST_TIMEOUT_MS = 60_000;
/** A part of an artifact: 8 MiB at 75 kbit/s. */
const PART_TIMEOUT_MS = 900_000;

export interface HttpOptions {
  metrics: Metrics;
  /** What /metrics asks for; without it everybody may read them. */
  metricsToken?: string | undefined;
  rateLimitPerMinute: number;
  /** Aborts when the service is about to stop: readiness turns 503. */
  leaving: AbortSignal;
  /** Aborts when it stops: waiting calls end. */
  stopping: AbortSignal;
}

/** The server with every route of the interface, not yet listening. */
export function createServer(context: ServiceContext, options: HttpOptions): FastifyInstance {
  const server = fastify({
    logger: false,
    // Clients that offer HTTP/2 by `Upgrade: h2c` are answered as if they had not.
    http: { shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket' },
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: PART_TIMEOUT_MS,
    forceCloseConnections: 'idle',
    return503OnClosing: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 500 },
    frameworkErrors: (error, request, reply) => void answerError(context, error, request, reply),
  });
  server.setErrorHandler((error, request, reply) => answerError(context, error, request, reply));
  server.setNotFoundHandler((request, reply) => answerNotFound(request, reply));
  server.addHook('onRequest', async ({ raw }, reply) => limitTime(raw, reply.raw));
  server.addHook('onSend', async (_request, reply) => {
    reply.header('cache-control', 'no-store').header('x-content-type-options', 'nosniff');
  });
  server.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none';
    options.metrics.request(request.method, route, reply.statusCode, reply.elapsedTime / 1000);
  });
  mountHealth(server, context, options);
  void server.register(async (rest) => mountRoutes(rest, context, options));
  return server;
}

/** Node has one limit for all requests, and the parts of artifacts may take longer than anything else. */
function limitTime(request: IncomingMessage, response: ServerResponse): void {
  if (request.headers['content-type'] === 'application/octet-stream') return;
  const timer = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, REQUEST_TIMEOUT_MS);
  response.once('close', () => clearTimeout(timer));
}

function mountHealth(
  server: FastifyInstance,
  { store }: ServiceContext,
  { metrics, metricsToken, leaving }: HttpOptions,
): void {
  server.get('/-/readiness', async (_request, reply) => {
    if (leaving.aborted) return reply.code(503).send({ status: 'stopping' });
    if (!(await store.ping())) return reply.code(503).send({ status: 'the store does not answer' });
    return { status: 'ready' };
  });
  server.get('/-/liveness', async () => ({ status: 'alive' }));
  server.get('/health', async () => ({ status: 'alive' }));
  const expected = metricsToken === undefined ? undefined : hashSecret(metricsToken);
  server.get('/metrics', async (request, reply) => {
    const shown = hashSecret(bearerOf(request) ?? '');
    if (expected !== undefined && !timingSafeEqual(shown, expected)) {
      throw new Refusal('badKey', 'authorization: must be Bearer and the METRICS_TOKEN of the service');
    }
    const text = await metrics.registry.metrics();
    return reply.type(metrics.registry.contentType).send(text);
  });
}

function mountRoutes(rest: FastifyInstance, context: ServiceContext, options: HttpOptions): void {
  const guard = new Guard(context, options.rateLimitPerMinute);
  rest.removeAllContentTypeParsers();
  rest.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer' },
    async ({ headers }: FastifyRequest, raw: Buffer) => readJson(await unpacked(raw, headers)),
  );
  rest.get('/openapi.json', async () => openApiDocument(routes, context.publicUrl));
  const mount = (scope: FastifyInstance, route: Route): void => {
    const { method, path, maxBodyBytes } = route.about;
    scope.route({
      method,
      url: path.replace(/\{(\w+)\}/g, ':$1'),
      ...(maxBodyBytes === undefined ? {} : { bodyLimit: maxBodyBytes }),
      // Before the body is read, so that strangers cannot make the service read one.
      onRequest: async (request) => guard.admit(request, route),
      handler: async (request, reply) => answer(route, request, reply, guard, options.stopping),
    });
  };
  for (const route of routes.filter(({ about }) => about.upload === undefined)) mount(rest, route);
  for (const route of routes.filter(({ about }) => about.upload !== undefined)) {
    void rest.register(async (scope) => {
      takeBytes(scope, route.about.upload!.maxBytes);
      mount(scope, route);
    });
  }
}

/** The body is the request itself. What is refused early is not read to its end. */
function takeBytes(scope: FastifyInstance, maxBytes: number): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(
    'application/octet-stream',
    async ({ headers }: FastifyRequest, body: Readable) => {
      if (Number(headers['content-length'] ?? 0) <= maxBytes) return body;
      const length = Number(headers['content-length']);
      throw new Refusal('tooLarge', `body: has ${length} bytes, more than the ${maxBytes} that are allowed`);
    },
  );
  scope.addContentTypeParser('*', async () => {
    throw new Refusal('unsupportedMedia', 'content-type: must be application/octet-stream');
  });
  scope.addHook('onSend', async (_request, reply) => {
    if (reply.statusCode >= 400) reply.header('connection', 'close');
  });
}

/** Knows who asks, between the hook that finds out and the handler that needs it. */
class Guard {
  readonly #context: ServiceContext;
  readonly #authenticator: Authenticator;
  readonly #limit: RateLimit;
  readonly #callers = new WeakMap<FastifyRequest, Caller>();

  constructor(context: ServiceContext, perMinute: number) {
    this.#context = context;
    this.#authenticator = new Authenticator(context);
    this.#limit = new RateLimit(perMinute);
  }

  /** @throws Refusal */
  async admit(request: FastifyRequest, { access, about }: Route): Promise<void> {
    if (access !== 'open') {
      const accountId = await this.#accountOf(request, access);
      this.#limit.count(accountId);
      this.#callers.set(request, { ...this.#context, accountId });
    }
    const encoding = request.headers['content-encoding'] ?? 'identity';
    if (encoding !== 'identity' && !(encoding === 'gzip' && about.maxBodyBytes !== undefined)) {
      throw new Refusal('unsupportedMedia', 'content-encoding: is not supported; send the body as it is');
    }
  }

  async #accountOf(request: FastifyRequest, access: 'key' | 'token'): Promise<string> {
    if (access === 'token') return accountOfToken(this.#context, tokenIn(request));
    const account = request.headers['x-service-account'];
    return this.#authenticator.accountOf(bearerOf(request), account?.toString());
  }

  callerOf(request: FastifyRequest): Caller | undefined {
    return this.#callers.get(request);
  }
}

function bearerOf({ headers }: FastifyRequest): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1];
}

/** What no token can be is not even looked for. */
const tokenIn = ({ params }: FastifyRequest): string =>
  /^\w{1,100}$/.exec((params as { token?: string }).token ?? '')?.[0] ?? '';

async function answer(
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
  guard: Guard,
  stopping: AbortSignal,
): Promise<FastifyReply> {
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort());
  const body = await route.answer(
    {
      params: request.params as Record<string, string>,
      query: request.query as Record<string, unknown>,
      body: route.about.upload === undefined ? request.body : undefined,
      upload: route.about.upload !== undefined && request.body instanceof Readable ? request.body : undefined,
      asked: { range: request.headers.range, ifRange: request.headers['if-range']?.toString() },
      signal: AbortSignal.any([gone.signal, stopping]),
    },
    guard.callerOf(request),
  );
  if (body instanceof FileAnswer) return reply.code(body.status).headers(body.headers).send(body.body);
  reply.code(route.about.status);
  return route.about.status === 204 ? reply.send() : reply.send(body);
}

function answerError(
  { log }: ServiceContext,
  error: unknown,
  { routeOptions }: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const refused = refusalBody(error, routeOptions?.bodyLimit);
  if (refused !== undefined) return reply.code(refused.statusCode).send(refused);
  log.error({ reason: messageOf(error), stack: error instanceof Error ? error.stack : '' }, 'request failed');
  return reply.code(500).send(errorBody(500, 'the service failed; its log says why'));
}

const shapes = routes.map(({ about }) => ({
  method: about.method,
  pattern: new RegExp(`^${about.path.replace(/\{\w+\}/g, '[^/]+')}/?$`),
}));

/** A known path with another method is told which methods it has. */
function answerNotFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const path = request.url.split('?', 1)[0]!;
  const methods = shapes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  if (methods.length === 0) {
    return reply.code(404).send(errorBody(404, `${request.method} ${path.slice(0, 200)} does not exist`));
  }
  const allowed = [...new Set(methods)].join(', ');
  reply.header('allow', allowed);
  if (request.method === 'OPTIONS') return reply.code(204).send();
  return reply.code(405).send(errorBody(405, `${request.method} is not allowed here; allowed: ${allowed}`));
}
