import { afterAll, beforeAll, expect, test } from 'vitest';
import { checkBody, startTestService, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());

/** A field of a route, the last values that are taken, the first that are not, and the words for those. */
type Bound = [route: string, path: string, good: unknown[], bad: unknown[], message: string];

const long = (length: number): string => 'x'.repeat(length);
const url = (length: number): string => `https://a.test/`.padEnd(length, 'x');
const variables = (count: number): object[] =>
  Array.from({ length: count }, (_, i) => ({ key: `K${i}`, value: 'v' }));

const COMMON: Bound[] = [
  ['url', 'name', ['x', long(255)], [''], 'must not be empty'],
  ['url', 'name', [], [long(256)], 'must have at most 255 characters'],
  ['url', 'name', [], [undefined], 'is required and must be a string'],
  ['url', 'name', [], [null, 5, {}], 'must be a string'],
  ['url', 'description', [null, '', long(500)], [long(501)], 'must have at most 500 characters'],
  ['url', 'activated', [true, false], ['true', 1, null], 'must be true or false'],
  ['url', 'muted', [true], ['x'], 'must be true or false'],
  ['url', 'doubleCheck', [false], [0], 'must be true or false'],
  ['url', 'locations', [['us-east-1', 'af-south-1']], [['moon']], 'must be one of us-east-1, us-east-2'],
  ['url', 'tags', [[], ['a', 'a']], ['a', [1]], 'must be a'],
  [
    'url',
    'frequency',
    [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440],
    [3, -1, 1441, '5', 1.5],
    'must be one of 0, 1, 2, 5',
  ],
  ['url', 'frequencyOffset', [1, 10, 86_400], [0, 86_401, 1.5], 'must be '],
  ['url', 'groupOrder', [null, 0, 7], [-1], 'must be at least 0'],
  ['url', 'runtimeId', [null, '2026.04', '2022.10'], ['2021.01'], 'must be one of 2026.04, 2025.04'],
  ['url', 'environmentVariables', [null, variables(100)], [variables(101)], 'must have at most 100 items'],
  ['url', 'environmentVariables', [], [[{ key: '', value: '' }]], 'must have at least 1 characters'],
  [
    'url',
    'environmentVariables',
    [],
    [[{ key: 'A', value: '', shown: true }]],
    'is not a known field (allowed: key, value, locked, secret)',
  ],
  [
    'url',
    'alertChannelSubscriptions',
    [[{ alertChannelId: 1, activated: true }]],
    [[{ alertChannelId: 1 }]],
    'is required and must be true or false',
  ],
  [
    'url',
    'alertSettings.escalationType',
    ['RUN_BASED', 'TIME_BASED'],
    ['NEVER'],
    'must be one of RUN_BASED, TIME_BASED',
  ],
  ['url', 'alertSettings.runBasedEscalation.failedRunThreshold', [1, 5], [0, 6], 'must be at'],
  [
    'url',
    'alertSettings.timeBasedEscalation.minutesFailingThreshold',
    [5, 10, 15, 30],
    [6],
    'must be one of 5, 10, 15, 30',
  ],
  ['url', 'alertSettings.reminders.amount', [0, 5, 100_000], [6, -1], 'must be'],
  ['url', 'alertSettings.reminders.interval', [1, 30], [0, 6], 'must be one of 1, 2, 3'],
  [
    'url',
    'alertSettings.parallelRunFailureThreshold.percentage',
    [10, 100],
    [0, 15, 110],
    'must be one of 10, 20',
  ],
  [
    'url',
    'retryStrategy',
    [null, { type: 'SINGLE_RETRY' }, { type: 'LINEAR' }],
    ['FIXED', { type: 'NO_RETRIES' }],
    'must be',
  ],
  ['url', 'retryStrategy.maxRetries', [1, 10], [0, 11, 1.5], 'must be'],
  ['url', 'retryStrategy.maxDurationSeconds', [0, 600], [-1, 601], 'must be at'],
  ['url', 'retryStrategy.baseBackoffSeconds', [0, 3600], [-1, 3601, 1e300], 'must be at'],
  ['url', 'retryStrategy.onlyOn', [[], ['NETWORK_ERROR']], [['HTTP']], 'must be NETWORK_ERROR'],
  ['url', 'frequencies', [], [5], 'is not a known field (allowed: name, description'],
];

const TYPES: Bound[] = [
  [
    'url',
    'request.url',
    ['http://a.test', url(2048), '{{BASE}}/x', 'https://{{HOST}}/'],
    ['ftp://a.test', 'a.test', 'javascript:1'],
    'must start with http:// or https://',
  ],
  ['url', 'request.url', [], [url(2049)], 'must have at most 2048 characters'],
  ['url', 'request.url', [], ['http://', 'https://[::1'], 'is not a valid URL'],
  ['url', 'request.method', ['GET'], ['POST'], 'must be GET'],
  ['url', 'request.ipFamily', ['IPv4', 'IPv6'], ['ipv4', 4], 'must be one of IPv4, IPv6'],
  ['url', 'request.followRedirects', [true, false], ['no'], 'must be true or false'],
  ['url', 'request.body', [], ['x'], 'is not a known field (allowed: method, url'],
  [
    'url',
    'request.assertions',
    [[{ source: 'STATUS_CODE', comparison: 'EQUALS', target: 200 }]],
    [[{ source: 'TEXT_BODY', comparison: 'EQUALS' }]],
    'must be STATUS_CODE',
  ],
  [
    'url',
    'request.assertions',
    [],
    [[{ source: 'STATUS_CODE', comparison: 'CONTAINS' }]],
    'must be one of EQUALS, NOT_EQUALS, LESS_THAN',
  ],
  ['url', 'degradedResponseTime', [null, 0, 30_000], [-1, 30_001], 'must be at'],
  ['url', 'maxResponseTime', [null, 0, 30_000], [-1, 30_001], 'must be at'],
  [
    'api',
    'request.method',
    ['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH'],
    ['TRACE', 'get'],
    'must be one of GET, POST',
  ],
  [
    'api',
    'request.bodyType',
    ['JSON', 'FORM', 'RAW', 'GRAPHQL', 'NONE'],
    ['XML'],
    'must be one of JSON, FORM',
  ],
  ['api', 'request.headers', [[{ key: 'a', value: 'b' }]], [[{ value: 'b' }], { a: 'b' }], 'must be'],
  [
    'api',
    'request.assertions',
    [[{ source: 'JSON_BODY', comparison: 'EQUALS', property: '$.a[(', regex: 'id-(\\d+)' }]],
    [[{ source: 'JSON_BODY', comparison: 'EQUALS', regex: 'id-(' }]],
    'request.assertions[0].regex: must be a regular expression: Invalid regular expression: /id-(/: ',
  ],
  [
    'api',
    'request.assertions',
    [[{ source: 'TEXT_BODY', comparison: 'EQUALS', property: '(a)' }]],
    [[{ source: 'TEXT_BODY', comparison: 'EQUALS', property: '[a' }]],
    'request.assertions[0].property: must be a regular expression: Invalid regular expression: /[a/: ',
  ],
  ['api', 'request.basicAuth', [null, { username: 'u', password: 'p' }], ['u:p'], 'must be an object'],
  ['api', 'maxResponseTime', [null, 30_000], [30_001], 'must be at most 30000'],
  ['api', 'localSetupScript', [null, '', 'process.env.TOKEN = 1'], [5, long(256_001)], 'must'],
  ['tcp', 'request.hostname', ['a.test', '::1', long(2048)], [''], 'must not be empty'],
  ['tcp', 'request.port', [1, 65_535], [0, 65_536, 1.5, '80', undefined], 'must be'],
  ['tcp', 'request.data', [null, '', 'PING'], [5], 'must be a string'],
  ['tcp', 'maxResponseTime', [null, 5000], [5001], 'must be at most 5000'],
  ['dns', 'request.query', ['a.test', long(100)], ['', long(101)], 'must'],
  [
    'dns',
    'request.recordType',
    ['A', 'AAAA', 'CNAME', 'MX', 'TXT', 'SOA', 'NS'],
    ['PTR', undefined],
    'must be one of A, AAAA',
  ],
  ['dns', 'request.protocol', ['TCP', 'UDP'], ['DOH'], 'must be one of UDP, TCP'],
  [
    'dns',
    'request.assertions',
    [],
    [[{ source: 'TEXT_ANSWER', comparison: 'EQUALS', property: '(', regex: ')' }]],
    'request.assertions[0].regex: must be a regular expression: ',
  ],
  ['dns', 'maxResponseTime', [null, 5000], [5001], 'must be at most 5000'],
  ['icmp', 'request.pingCount', [null, 1, 50], [0, 51, 2.5], 'must be'],
  ['icmp', 'request.hostname', [long(2048)], ['', long(2049)], 'must'],
  ['icmp', 'maxResponseTime', [null, 300_000], [300_001], 'must be at most 300000'],
  ['icmp', 'maxPacketLossThreshold', [null, 0, 100], [-1, 101], 'must be at'],
];

/** The smallest body of the route with one field changed; undefined leaves it out. */
function bodyWith(route: string, path: string, value: unknown): object {
  const body = structuredClone(checkBody(route)) as Record<string, unknown>;
  const parts = path.split('.');
  const last = parts.pop()!;
  let at = body;
  for (const part of parts) at = (at[part] ??= {}) as Record<string, unknown>;
  if (value === undefined) delete at[last];
  else at[last] = value;
  return body;
}

test.each([...COMMON, ...TYPES])('%s: %s', async (route, path, good, bad, message) => {
  for (const value of good) {
    const { status, body } = await service.post(`/v1/checks/${route}`, bodyWith(route, path, value));
    expect(body, JSON.stringify(value).slice(0, 80)).not.toHaveProperty('message');
    expect(status).toBe(201);
    await service.delete(`/v1/checks/${body.id}`);
  }
  for (const value of bad) {
    const { status, body } = await service.post(`/v1/checks/${route}`, bodyWith(route, path, value));
    expect(status).toBe(400);
    expect(body.message).toContain(path);
    expect(body.message).toContain(message);
  }
});

test('frequency 0 needs the interval in seconds', async () => {
  const refused = await service.post('/v1/checks/url', checkBody('url', { frequency: 0 }));
  expect(refused.body.message).toBe(
    'frequencyOffset: is required when frequency is 0: the interval in seconds, 10, 20 or 30',
  );
  const made = await service.post('/v1/checks/url', checkBody('url', { frequency: 0, frequencyOffset: 10 }));
  expect(made.body).toMatchObject({ frequency: 0, frequencyOffset: 10 });
});

test('several problems are named together', async () => {
  const body = { name: '', frequency: 3, request: { url: 'x' }, locations: ['eu-west-1'], colour: 'red' };
  const { body: answer } = await service.post('/v1/checks/url', body);
  for (const field of ['name:', 'frequency:', 'request.url:', 'colour:']) {
    expect(answer.message).toContain(field);
  }
});

test('more problems than can be read are counted', async () => {
  const environmentVariables = Array.from({ length: 100 }, () => ({}));
  const { status, body } = await service.post('/v1/checks/url', checkBody('url', { environmentVariables }));
  expect(status).toBe(400);
  expect(body.message).toMatch(/; and 190 more$/);
});
