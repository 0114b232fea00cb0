import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { failedBy, startAgent, type ScriptedAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

const START = Date.UTC(2026, 0, 1) / 1000;
const TRIGGERS = 6;

/** A result as it was reported; `second` after the start of 2026, when it began, names it. */
interface Reported {
  second: number;
  location: string;
  resultType: 'FINAL' | 'ATTEMPT';
  hasFailures: boolean;
}

let service: TestService;
let checkId: string;
let places: string[];
const agents: ScriptedAgent[] = [];
const reported: Reported[] = [];

beforeAll(async () => {
  service = await startTestService();
  const made = [await service.location(), await service.location()];
  places = made.map(({ slug }) => slug);
  for (const { key } of made) agents.push(await startAgent(service.url, key));
  const { body } = await service.post(
    '/v1/checks/url',
    checkBody('url', {
      locations: [],
      privateLocations: places,
      activated: false,
      retryStrategy: { baseBackoffSeconds: 0, maxRetries: 1 },
    }),
  );
  checkId = body.id;
  for (let at = 0; at < TRIGGERS; at++) await runEverywhere(at);
});
afterAll(async () => {
  for (const agent of agents) agent.leave();
  await service.stop();
});

/** By turns: passes, fails once and passes, fails twice. Seconds do not rise with the order of arrival. */
async function runEverywhere(at: number): Promise<void> {
  await service.post('/v2/check-sessions/trigger', { target: { checkId } });
  for (const [which, agent] of agents.entries()) {
    const verdicts = [[false], [true, false], [true, true]][(at + which) % 3]!;
    for (const [attempt, hasFailures] of verdicts.entries()) {
      const second = ((at * 2 + which) * 7 + attempt * 31) % 97;
      const time = new Date((START + second) * 1000).toISOString();
      const verdict = hasFailures ? failedBy('ECONNRESET', 'reset') : {};
      await agent.finish(await agent.take(), { ...verdict, startedAt: time, stoppedAt: time });
      const resultType = hasFailures && attempt === 0 ? 'ATTEMPT' : 'FINAL';
      reported.push({ second, location: places[which]!, resultType, hasFailures });
    }
  }
}

const Query = fc.record(
  {
    limit: fc.integer({ min: 1, max: 8 }),
    from: fc.integer({ min: 0, max: 100 }),
    to: fc.integer({ min: 0, max: 100 }),
    place: fc.integer({ min: 0, max: 1 }),
    hasFailures: fc.boolean(),
    resultType: fc.constantFrom('FINAL' as const, 'ATTEMPT' as const, 'ALL' as const),
    checkType: fc.constantFrom('URL', 'TCP'),
  },
  { requiredKeys: [] },
);
type Query = typeof Query extends fc.Arbitrary<infer Value> ? Value : never;

function expected({ from = 0, to = Infinity, place, hasFailures, resultType, checkType }: Query): number[] {
  return reported
    .filter((each) => each.second >= from && each.second < to)
    .filter((each) => place === undefined || each.location === places[place])
    .filter((each) => hasFailures === undefined || each.hasFailures === hasFailures)
    .filter((each) => resultType === 'ALL' || each.resultType === (resultType ?? 'FINAL'))
    .filter(() => checkType !== 'TCP')
    .map((each) => each.second)
    .toSorted((a, b) => b - a);
}

async function listed({ place, from, to, ...rest }: Query): Promise<number[]> {
  const query = {
    ...rest,
    ...(from === undefined ? {} : { from: START + from }),
    ...(to === undefined ? {} : { to: START + to }),
    ...(place === undefined ? {} : { location: places[place]! }),
  };
  const seconds: number[] = [];
  let nextId: string | null = null;
  do {
    const at: { nextId?: string } = nextId === null ? {} : { nextId };
    const { body } = await service.get<{ length: number; entries: Entry[]; nextId: string | null }>(
      `/v2/check-results/${checkId}`,
      { ...query, ...at },
    );
    expect(body.length).toBe(body.entries.length);
    expect(body.length).toBeLessThanOrEqual(rest.limit ?? 10);
    seconds.push(...body.entries.map((each) => Date.parse(String(each['startedAt'])) / 1000 - START));
    ({ nextId } = body);
  } while (nextId !== null);
  return seconds;
}

test('any filters together, walked in pages of any size, find what they should', async () => {
  expect(new Set(reported.map(({ second }) => second)).size).toBe(reported.length);
  await fc.assert(
    fc.asyncProperty(Query, async (query) => {
      expect(await listed(query)).toEqual(expected(query));
    }),
    { numRuns: 60 },
  );
});
