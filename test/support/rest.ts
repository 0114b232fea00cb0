import { setTimeout as delay } from 'node:timers/promises';
import type { SuiteResult } from '../../src/checks/index.ts';

/** The REST interface as a client of an account sees it. */
export interface Rest {
  readonly url: string;
  /** One call. @throws Error with the answer's text for any status but 2xx */
  call<T>(method: 'GET' | 'POST' | 'PUT' | 'DELETE', path: string, body?: object): Promise<T>;
}

export interface Session {
  checkSessionId: string;
  checkId: string;
  status: string;
  results: { resultType: string; hasFailures: boolean; hasErrors: boolean; checkResultId: string }[];
  runs: { state: string; reason: string | null; message: string | null }[];
}

export interface ResultEntry {
  id: string;
  resultType: string;
  hasFailures: boolean;
  hasErrors: boolean;
  sequenceId: string;
  [field: string]: unknown;
}

export const ACCOUNT_ID = '6f1c0b52-3a57-4c0e-9f0e-0d6d6a3f5b11';
export const API_KEY = 'key_of_the_tests_0123456789';

export function restOf(url: string): Rest {
  return {
    url,
    call: async (method, path, body) => {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${API_KEY}`,
          'x-service-account': ACCOUNT_ID,
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
      return text === '' ? undefined : JSON.parse(text);
    },
  };
}

export interface PrivateLocation {
  id: string;
  slugName: string;
  key: string;
  keyId: string;
}

export async function makeLocation(rest: Rest, slugName: string): Promise<PrivateLocation> {
  const made = await rest.call<{ id: string; keys: { id: string; rawKey: string }[] }>(
    'POST',
    '/v1/private-locations',
    { name: slugName, slugName },
  );
  const [key] = made.keys;
  return { id: made.id, slugName, key: key!.rawKey, keyId: key!.id };
}

/** A check that runs only when it is triggered: it is not activated, and nothing is tried twice. */
export async function makeCheck(
  rest: Rest,
  type: 'url' | 'tcp' | 'icmp' | 'dns',
  location: string,
  fields: object,
): Promise<string> {
  const { id } = await rest.call<{ id: string }>('POST', `/v1/checks/${type}`, {
    name: `a ${type} check`,
    activated: false,
    privateLocations: [location],
    retryStrategy: null,
    doubleCheck: false,
    ...fields,
  });
  return id;
}

/** Starts the checks now. @returns the session of each */
export async function trigger(rest: Rest, checkId: string | readonly string[]): Promise<Session[]> {
  const { sessions } = await rest.call<{ sessions: Session[] }>('POST', '/v2/check-sessions/trigger', {
    target: { checkId },
  });
  return sessions;
}

const FINAL = ['PASSED', 'FAILED', 'DEGRADED', 'TIMED_OUT', 'CANCELLED'];

/** Waits for the end of a session. @throws Error when it has none within the time */
export async function finished(rest: Rest, { checkSessionId }: Session, withinMs = 30_000): Promise<Session> {
  const end = performance.now() + withinMs;
  for (;;) {
    const session = await rest.call<Session>('GET', `/v2/check-sessions/${checkSessionId}`);
    if (FINAL.includes(session.status)) return session;
    if (performance.now() > end)
      throw new Error(`not final after ${withinMs} ms: ${JSON.stringify(session)}`);
    await delay(50);
  }
}

/** Every stored result of a check, FINAL and ATTEMPT, newest first. */
export async function resultsOf(rest: Rest, checkId: string): Promise<ResultEntry[]> {
  const page = await rest.call<{ entries: ResultEntry[] }>(
    'GET',
    `/v2/check-results/${checkId}?resultType=ALL&limit=100`,
  );
  return page.entries;
}

/** Uploads the archive of a project. @returns its key, for `codeBundlePath` */
export async function uploadBundle({ url }: Rest, archive: Buffer): Promise<string> {
  const response = await fetch(`${url}/next/storage/upload-code-bundle`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/octet-stream' },
    body: Uint8Array.from(archive),
  });
  if (!response.ok) throw new Error(`upload: ${response.status} ${await response.text()}`);
  return ((await response.json()) as { key: string }).key;
}

/** Of a check that ran once or more: what its last run found. */
export async function lastSuiteResult(rest: Rest, checkId: string): Promise<SuiteResult> {
  const [last] = await resultsOf(rest, checkId);
  const whole = await rest.call<{ playwrightCheckResult: SuiteResult }>(
    'GET',
    `/v1/check-results/${checkId}/${last!.id}`,
  );
  return whole.playwrightCheckResult;
}
