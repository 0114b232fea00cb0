import { readdirSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  checkSchema,
  checkTypes,
  findCheckType,
  CHECK_TYPES,
  type CheckType,
} from '../../src/checks/index.ts';
import { Limiter } from '../../src/checks/limiter.ts';
import { OPEN_POLICY } from '../../src/checks/target-policy/index.ts';

const folder = join(import.meta.dirname, '../../src/checks');

/** The smallest valid definition of each type: what has no default. */
const SMALLEST: Readonly<Record<string, object>> = {
  API: { request: { url: 'https://example.test/' } },
  URL: { request: { url: 'https://example.test/' } },
  TCP: { request: { hostname: 'example.test', port: 443 } },
  DNS: { request: { query: 'example.test', recordType: 'A' } },
  ICMP: { request: { hostname: 'example.test' } },
  BROWSER: { script: '' },
  MULTI_STEP: { script: '' },
  PLAYWRIGHT: { codeBundlePath: `bundles/${'0'.repeat(64)}.tar.gz` },
};

const smallest = (type: CheckType): object => ({
  name: 'A check',
  privateLocations: ['here'],
  ...SMALLEST[type.name],
});

/** An object among the fields of a type. */
function inner(type: CheckType): [field: string, value: object] {
  if (type.lane === 'probe') return ['request', (smallest(type) as { request: object }).request];
  return type.lane === 'script'
    ? ['playwrightConfig', {}]
    : ['triggerIncident', { serviceId: '1', name: 'Down', description: '', notifySubscribers: false }];
}

describe('the registry of check types', () => {
  test('has one line per folder that holds the fields of a type', () => {
    const folders = readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && existsSync(join(folder, entry.name, 'spec.ts')))
      .map((entry) => entry.name);
    expect(folders.sort()).toEqual(
      checkTypes()
        .map((type) => type.route)
        .sort(),
    );
  });

  test('names only types of the interface, each once', () => {
    const names = checkTypes().map((type) => type.name);
    expect(CHECK_TYPES).toEqual(expect.arrayContaining(names));
    expect(new Set(names).size).toBe(names.length);
  });

  test('finds nothing under names that are not types', () => {
    expect(findCheckType('constructor')).toBeUndefined();
    expect(findCheckType('url')).toBeUndefined();
  });
});

describe.each(checkTypes().map((type) => [type.name, type] as const))('check type %s', (name, type) => {
  test('has a smallest definition in this test', () => {
    expect(SMALLEST).toHaveProperty(name);
  });

  test('reads its own output again without change', () => {
    const once = checkSchema(type).parse(smallest(type));
    expect(checkSchema(type).parse(once)).toEqual(once);
  });

  test('refuses unknown fields, at the top and below', () => {
    const top = checkSchema(type).safeParse({ ...smallest(type), colour: 'red' });
    expect(top.error?.issues[0]?.code).toBe('unrecognized_keys');
    const [field, value] = inner(type);
    const deep = checkSchema(type).safeParse({ ...smallest(type), [field]: { ...value, colour: 'red' } });
    expect(deep.error?.issues[0]).toMatchObject({ code: 'unrecognized_keys', path: [field] });
  });

  test('refuses a definition without what it needs', () => {
    const [required = ''] = Object.keys(SMALLEST[name]!);
    const rest = Object.fromEntries(Object.entries(smallest(type)).filter(([key]) => key !== required));
    expect(checkSchema(type).safeParse(rest).error?.issues[0]?.path).toEqual([required]);
  });

  test('limits its time', () => {
    const spec = checkSchema(type).parse(smallest(type));
    expect(type.timeoutMs(spec)).toBeGreaterThan(0);
    expect(type.timeoutMs(spec)).toBeLessThanOrEqual(type.lane === 'suite' ? 4_200_000 : 300_000);
  });

  test('ends at once when its signal has aborted', async () => {
    const spec = checkSchema(type).parse(smallest(type));
    const run = type.run(spec, abortedContext());
    const ended = await Promise.race([
      run.then(
        () => true,
        () => true,
      ),
      new Promise<boolean>((resolve) => setTimeout(resolve, 2000, false)),
    ]);
    expect(ended).toBe(true);
  });
});

function abortedContext(): Parameters<CheckType['run']>[1] {
  const signal = AbortSignal.abort(new Error('cancelled'));
  return {
    signal,
    proxyUrl: null,
    resolver: {
      resolve: async () => {
        signal.throwIfAborted();
        throw new Error('not reached');
      },
      servers: () => [],
    },
    handshakes: new Limiter(1),
    targets: OPEN_POLICY,
    scripts: null,
  };
}
