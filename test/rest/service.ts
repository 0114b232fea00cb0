import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, inject } from 'vitest';
import { readSettings, type Environment } from '../../src/kit/settings.ts';
import { errorBody } from '../../src/service/http/errors.ts';
import { routes } from '../../src/service/http/resources/index.ts';
import { startService, type LiveResult, type RunningService } from '../../src/service/index.ts';
import { serviceSettings } from '../../src/service/settings.ts';
import { silentLog } from '../support/databases.ts';

export const ACCOUNT = '6f9f1cbe-4f4c-4c55-8f0b-4a9d0c2f3a11';
export const API_KEY = 'vk_0123456789abcdef0123456789abcdef';

/** Any object of the interface, or an error body. */
export interface Entry {
  id: string;
  message: string;
  [field: string]: unknown;
}

export interface Answer<T = Entry> {
  status: number;
  body: T;
  headers: Headers;
}

export interface CallOptions {
  body?: unknown;
  query?: Record<string, string | number | boolean | readonly string[]>;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface TestService {
  service: RunningService;
  url: string;
  results: LiveResult[];
  /**
   * One request with the API key. The answer is held against the schema of its route: its status must
   * be declared, its body must be of the declared shape without anything more.
   */
  call<T = Entry>(method: string, path: string, options?: CallOptions): Promise<Answer<T>>;
  get<T = Entry>(path: string, query?: CallOptions['query']): Promise<Answer<T>>;
  post<T = Entry>(path: string, body?: unknown): Promise<Answer<T>>;
  put<T = Entry>(path: string, body: unknown): Promise<Answer<T>>;
  delete(path: string): Promise<Answer>;
  /** Uploads an archive. @returns its key */
  bundle(bytes?: Buffer): Promise<string>;
  /** A new private location: its slug, its id and its raw key. */
  location(slugName?: string): Promise<{ id: string; slug: string; key: string; keyId: string }>;
  stop(): Promise<void>;
}

interface NewLocation {
  id: string;
  keys: { id: string; rawKey: string }[];
}

let slugs = 0;

/** A temporary data folder with a migrated store that was never started. */
export function freshDataDir(): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'vedette-rest-'));
  cpSync(join(inject('storeTemplate'), 'store'), join(dataDir, 'store'), { recursive: true });
  return dataDir;
}

/** The whole service on the embedded store in a folder of its own. */
export async function startTestService(
  env: Environment = {},
  dataDir = freshDataDir(),
  log = silentLog,
): Promise<TestService> {
  const { values } = readSettings(serviceSettings, {
    SERVICE_DATA_DIR: dataDir,
    SERVICE_HOST: '127.0.0.1',
    SERVICE_PORT: '0',
    BOOTSTRAP_ACCOUNT_ID: ACCOUNT,
    BOOTSTRAP_API_KEY: API_KEY,
    ...env,
  });
  const results: LiveResult[] = [];
  const service = await startService(values, { log, onResult: (result) => results.push(result) });
  const call = async <T>(method: string, path: string, options: CallOptions = {}): Promise<Answer<T>> =>
    request<T>(service.url, method, path, options);
  return {
    service,
    url: service.url,
    results,
    call,
    get: (path, query) => call('GET', path, query ? { query } : {}),
    post: (path, body) => call('POST', path, { body }),
    put: (path, body) => call('PUT', path, { body }),
    delete: (path) => call('DELETE', path),
    bundle: async (bytes = EMPTY_BUNDLE) => upload(service.url, bytes),
    location: async (slugName = `place-${++slugs}`) => {
      const { body } = await call<NewLocation>('POST', '/v1/private-locations', {
        body: { name: slugName, slugName },
      });
      const [key] = body.keys;
      return { id: body.id, slug: slugName, key: key!.rawKey, keyId: key!.id };
    },
    stop: async () => {
      await service.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

async function upload(url: string, bytes: Buffer): Promise<string> {
  const response = await fetch(`${url}/next/storage/upload-code-bundle`, {
    method: 'POST',
    headers: { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/octet-stream' },
    body: Uint8Array.from(bytes),
  });
  expect(response.status).toBe(201);
  return ((await response.json()) as { key: string }).key;
}

async function request<T>(
  url: string,
  method: string,
  path: string,
  options: CallOptions,
): Promise<Answer<T>> {
  const { body, query = {}, headers = {}, signal } = options;
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of [value].flat()) search.append(name, String(each));
  }
  const text = search.size === 0 ? '' : `?${search.toString()}`;
  const response = await fetch(`${url}${path}${text}`, {
    method,
    headers: {
      authorization: `Bearer ${API_KEY}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    ...(signal ? { signal } : {}),
  });
  const raw = await response.text();
  const { status } = response;
  assertDeclared(method, path, status, parsed(raw));
  return { status, body: parsed(raw), headers: response.headers };
}

/** The type is the caller's word; `assertDeclared` holds the body against the route's own. */
const parsed: (text: string) => ReturnType<typeof JSON.parse> = (text) =>
  text === '' ? undefined : JSON.parse(text);

/** Statuses that any route may answer: what went wrong before it was reached. */
const ANYWHERE = [400, 401, 403, 413, 415, 429];

function assertDeclared(
  method: string,
  path: string,
  status: number,
  body: { message: string; errorCode?: string },
): void {
  const about = routes
    .map((route) => route.about)
    .find((each) => each.method === method && matches(each.path, path));
  if (about === undefined) return;
  expect([about.status, ...(about.errors ?? []), ...ANYWHERE], `${method} ${path}`).toContain(status);
  if (status >= 400) {
    expect(body).toEqual(errorBody(status, body.message, body.errorCode));
    expect(body.message).toBeTypeOf('string');
  } else if (about.reply === undefined) expect(body).toBeUndefined();
  else expect(about.reply.safeParse(body).error?.issues ?? [], `${method} ${path}`).toEqual([]);
}

function matches(pattern: string, path: string): boolean {
  return new RegExp(`^${pattern.replace(/\{\w+\}/g, '[^/]+')}$`).test(path);
}

/** The archive of a project without a file. */
export const EMPTY_BUNDLE = gzipSync(Buffer.alloc(1024));
export const keyOf = (bundle: Buffer): string =>
  `bundles/${createHash('sha256').update(bundle).digest('hex')}.tar.gz`;

/** The smallest body that each type takes, at a location. */
export const SMALLEST: Readonly<Record<string, object>> = {
  api: { request: { url: 'https://example.com/api' } },
  url: { request: { url: 'https://example.com/' } },
  tcp: { request: { hostname: 'example.com', port: 443 } },
  dns: { request: { query: 'example.com', recordType: 'A' } },
  icmp: { request: { hostname: 'example.com' } },
  browser: { script: '' },
  multistep: { script: '' },
  playwright: { codeBundlePath: keyOf(EMPTY_BUNDLE) },
};

export function checkBody(route: string, change: object = {}): object {
  return { name: `a ${route} check`, locations: ['eu-west-1'], ...SMALLEST[route], ...change };
}
