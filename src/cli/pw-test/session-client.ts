import { z } from 'zod';
import { codeOf, ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Connection } from './connection.ts';

const Session = z.object({ testSessionId: z.string(), sequenceIds: z.object({ 'pw-test': z.string() }) });

/** A test session and its one run. */
export interface StartedSession {
  testSessionId: string;
  sequenceId: string;
}

const LogPage = z.object({
  entries: z.array(z.object({ shard: z.number().nullable(), text: z.string() })),
  next: z.number(),
  isOver: z.boolean(),
});
export type LogPage = z.infer<typeof LogPage>;

const Status = z.object({
  status: z.enum(['RUNNING', 'FAILED', 'PASSED', 'CANCELLED']),
  results: z.array(z.object({ aborted: z.boolean(), message: z.string().nullable() })),
});
export type SessionStatus = z.infer<typeof Status>;

const Result = z.object({
  errors: z.array(z.object({ message: z.string() })),
  playwrightCheckResult: z
    .object({
      metrics: z.object({
        passed: z.number(),
        failed: z.number(),
        flaky: z.number(),
        skipped: z.number(),
        interrupted: z.number(),
        notRun: z.number(),
      }),
      startTime: z.number(),
      endTime: z.number(),
      install: z.object({ ms: z.number(), fromCache: z.boolean() }).nullable(),
    })
    .nullable()
    .catch(null),
});
export type SuiteReport = z.infer<typeof Result>;

const Assets = z.object({
  assets: z.array(
    z.object({
      name: z.string(),
      url: z.string(),
      size: z.number(),
      state: z.enum(['pending', 'stored', 'refused']),
      reason: z.string().nullable(),
    }),
  ),
});
export type Asset = z.infer<typeof Assets>['assets'][number];

/** What `pw-test` asks of a service. */
export class SessionClient {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** @throws FatalError with exit code 2 when the account has not exactly one location */
  async chooseLocation(location: string | null): Promise<string> {
    if (location !== null) return location;
    const all = z
      .array(z.object({ slugName: z.string() }))
      .parse(await this.#json('GET', '/v1/private-locations'));
    const [only, ...others] = all.map(({ slugName }) => slugName);
    if (only !== undefined && others.length === 0) return only;
    const choice =
      only === undefined
        ? 'the account has no private location: make one, and start an agent there'
        : `say where with --location: ${[only, ...others].join(', ')}`;
    throw new FatalError(ExitCode.usage, `pw-test: ${choice}`);
  }

  async upload(archive: Buffer<ArrayBuffer>, signal: AbortSignal): Promise<string> {
    const answer = await this.#send('/next/storage/upload-code-bundle', {
      method: 'POST',
      headers: { 'content-type': 'application/octet-stream' },
      body: archive,
      signal,
    });
    return z.object({ key: z.string() }).parse(await answer.json()).key;
  }

  async start(body: object): Promise<StartedSession> {
    const { testSessionId, sequenceIds } = Session.parse(
      await this.#json('POST', '/v1/test-sessions/run', body),
    );
    return { testSessionId, sequenceId: sequenceIds['pw-test'] };
  }

  /** Waits for something new for some seconds. */
  async log(
    { testSessionId, sequenceId }: StartedSession,
    after: number,
    signal: AbortSignal,
  ): Promise<LogPage> {
    const path = `/v1/test-sessions/${testSessionId}/results/${sequenceId}/log`;
    const answer = await this.#send(`${path}?after=${after}&maxWaitSeconds=10`, { signal });
    return LogPage.parse(await answer.json());
  }

  async status({ testSessionId }: StartedSession): Promise<SessionStatus> {
    return Status.parse(await this.#json('GET', `/v1/test-sessions/${testSessionId}`));
  }

  async cancel({ testSessionId }: StartedSession): Promise<void> {
    await this.#send(`/v1/test-sessions/${testSessionId}/cancel`, { method: 'POST' });
  }

  /** Null when the run ended without one. */
  async result({ testSessionId, sequenceId }: StartedSession): Promise<SuiteReport | null> {
    const path = `/v1/test-sessions/${testSessionId}/results/${sequenceId}`;
    const answer = await this.#fetch(path, {});
    return answer.status === 404 ? null : Result.parse(await (await checked(answer)).json());
  }

  async assets({ testSessionId, sequenceId }: StartedSession): Promise<Asset[]> {
    const path = `/v1/test-sessions/${testSessionId}/results/${sequenceId}/assets`;
    const answer = await this.#fetch(path, {});
    return answer.status === 404 ? [] : Assets.parse(await (await checked(answer)).json()).assets;
  }

  /** By its path: the service may know itself by another address than we do. */
  async download({ url }: Asset, signal: AbortSignal): Promise<NonNullable<Response['body']>> {
    const { pathname } = new URL(url);
    const path = pathname.slice(pathname.indexOf('/v1/'));
    const { body } = await this.#send(path, { signal });
    if (body === null) throw new Error(`${path}: the answer is empty`);
    return body;
  }

  async #json(method: string, path: string, body?: object): Promise<unknown> {
    const answer = await this.#send(path, {
      method,
      ...(body === undefined
        ? {}
        : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    return answer.json();
  }

  async #send(path: string, init: RequestInit): Promise<Response> {
    return checked(await this.#fetch(path, init));
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const { url, apiKey, accountId } = this.#connection;
    try {
      return await fetch(url + path, {
        ...init,
        headers: {
          ...(init.headers as Record<string, string> | undefined),
          authorization: `Bearer ${apiKey}`,
          ...(accountId === null ? {} : { 'x-service-account': accountId }),
        },
      });
    } catch (error) {
      if (init.signal?.aborted === true) throw error;
      const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
      const why = codeOf(cause) ?? messageOf(cause);
      throw new FatalError(ExitCode.serviceUnreachable, `pw-test: ${url} does not answer: ${why}`, {
        cause: error,
      });
    }
  }
}

/** @throws FatalError with what the service says */
async function checked(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  const text = await answer.text();
  const { data } = z.object({ message: z.string() }).safeParse(jsonOf(text));
  const said = data?.message ?? `status ${answer.status}`;
  const isKey = answer.status === 401 || answer.status === 403;
  const code = isKey ? ExitCode.keyRefused : answer.status < 500 ? ExitCode.usage : ExitCode.internal;
  throw new FatalError(code, `pw-test: the service refuses it: ${said}`);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
