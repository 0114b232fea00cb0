import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { VERSION } from '../../src/kit/version.ts';
import { startAgent } from './agent.ts';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());

interface Series {
  timestamps: string[];
  queueSize: number[];
  oldestScheduledCheckRun: number[];
  message: string;
}

const hours = (n: number): string => new Date(Date.now() + n * 3_600_000).toISOString();
const series = async (id: string, from: string | number = hours(-1), to: string | number = hours(1)) =>
  service.get<Series>(`/v1/private-locations/${id}/metrics`, { from, to });

/** Starts `count` runs that wait at the location. */
async function enqueue(slug: string, count: number): Promise<void> {
  const body = checkBody('url', { activated: false, locations: [], privateLocations: [slug] });
  const check = await service.post('/v1/checks/url', body);
  for (let i = 0; i < count; i++) {
    await service.post('/v2/check-sessions/trigger', { target: { checkId: check.body.id } });
  }
}

async function metricsText(url = service.url, token?: string): Promise<string> {
  const response = await fetch(`${url}/metrics`, {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  });
  expect(response.status).toBe(200);
  return response.text();
}

/** The value of a location's metric; undefined when it is not there. */
async function gauge(name: string, slug: string): Promise<number | undefined> {
  const [, value] =
    new RegExp(`^${name}\\{location="${slug}"\\} (\\S+)$`, 'm').exec(await metricsText()) ?? [];
  return value === undefined ? undefined : Number(value);
}

describe('GET /v1/private-locations/{id}/metrics', () => {
  test('shows in parallel arrays how many runs wait and how long the oldest has', async () => {
    const { id, slug } = await service.location();
    await enqueue(slug, 3);
    const { status, body } = await series(id);
    expect(status).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['oldestScheduledCheckRun', 'queueSize', 'timestamps']);
    expect(body.queueSize.at(-1)).toBe(3);
    expect(body.oldestScheduledCheckRun.at(-1)).toBeLessThan(60);
    expect(body.timestamps).toHaveLength(body.queueSize.length);
    expect(Math.abs(Date.now() - Date.parse(body.timestamps.at(-1)!))).toBeLessThan(60_000);
  });

  test('what agents have, and what another location has, does not wait', async () => {
    const [here, there] = [await service.location(), await service.location()];
    await enqueue(here.slug, 2);
    const agent = await startAgent(service.url, here.key);
    const job = await agent.take();
    await expect.poll(async () => (await series(here.id)).body.queueSize.at(-1)).toBe(0);
    expect((await series(there.id)).body.queueSize.at(-1)).toBe(0);
    await agent.finish(job);
    agent.leave();
  });

  test('knows the past, and nothing of the future', async () => {
    const { id } = await service.location();
    const past = await series(id, hours(-48), hours(-24));
    expect(past.body).toEqual({ timestamps: [], queueSize: [], oldestScheduledCheckRun: [] });
    expect((await series(id, hours(1), hours(2))).body.timestamps).toEqual([]);
  });

  test('takes calendar dates, instants with a zone and UNIX times', async () => {
    const { id } = await service.location();
    const day = (n: number): string => hours(n * 24).slice(0, 10);
    const [now, nowMs] = [Math.floor(Date.now() / 1000), Date.now()];
    for (const [from, to] of [
      [day(0), day(0)],
      [day(-14), day(0)],
      [hours(-1).replace('Z', '+00:00'), hours(1).replace('Z', '+00:00')],
      [now - 60, now + 60],
      [nowMs - 60_000, nowMs + 60_000],
    ] as const) {
      const { status, body } = await series(id, from, to);
      expect([from, status, body.timestamps.length > 0]).toEqual([from, 200, true]);
    }
  });

  test('says what is wrong with a window', async () => {
    const { id } = await service.location();
    const wrong: [string, string, RegExp][] = [
      [hours(0), hours(-1), /^to: must be later than from$/],
      [hours(-15 * 24), hours(0), /^to: must be less than 15 days after from$/],
      ['yesterday', hours(0), /^query\.from: a date, an ISO 8601 instant|^from: a date, an ISO 8601 instant/],
      ['2026-02-30', '2026-03-01', /from: a date, an ISO 8601 instant/],
      ['9'.repeat(14), hours(0), /from|to/],
    ];
    for (const [from, to, message] of wrong) {
      const answer = await series(id, from, to);
      expect(answer.status, from).toBe(400);
      expect(answer.body.message).toMatch(message);
    }
    const bare = await service.get(`/v1/private-locations/${id}/metrics`);
    expect(bare.status).toBe(400);
    expect(bare.body.message).toMatch(/from: .*; .*to: /);
  });

  test('is for the account of the location', async () => {
    expect((await series('6f9f1cbe-4f4c-4c55-8f0b-4a9d0c2f3a12')).status).toBe(404);
    expect((await series('no-id')).status).toBe(404);
    const stranger = await service.call('GET', '/v1/private-locations/x/metrics', {
      headers: { authorization: 'Bearer vk_00000000000000000000000000000000' },
    });
    expect(stranger.status).toBe(401);
  });
});

describe('/metrics', () => {
  test('shows each location as it is now', async () => {
    const { slug, key } = await service.location();
    await expect.poll(async () => gauge('vedette_location_agents', slug), { timeout: 5000 }).toBe(0);
    expect(await gauge('vedette_location_last_seen_timestamp_seconds', slug)).toBeUndefined();

    const agent = await startAgent(service.url, key, ['URL']);
    await expect.poll(async () => gauge('vedette_location_agents', slug), { timeout: 5000 }).toBe(1);
    expect(await gauge('vedette_location_slots', slug)).toBe(100);
    expect(await gauge('vedette_location_queue_size', slug)).toBe(0);
    expect(await gauge('vedette_location_oldest_run_age_seconds', slug)).toBe(0);
    const seen = await gauge('vedette_location_last_seen_timestamp_seconds', slug);
    expect(Math.abs(Date.now() / 1000 - seen!)).toBeLessThan(30);

    await enqueue(slug, 1);
    const job = await agent.take();
    await expect.poll(async () => gauge('vedette_location_runs_in_flight', slug), { timeout: 5000 }).toBe(1);
    await agent.finish(job);
    await expect.poll(async () => gauge('vedette_location_runs_in_flight', slug), { timeout: 5000 }).toBe(0);
    agent.leave();
    await expect.poll(async () => gauge('vedette_location_agents', slug), { timeout: 5000 }).toBe(0);
  });

  test('tells suites apart from what takes seconds, each part for itself', async () => {
    const { id, slug, key } = await service.location();
    const codeBundlePath = await service.bundle();
    const here = { locations: [], privateLocations: [slug], activated: false };
    const suite = checkBody('playwright', { codeBundlePath, ...here, shards: 2 });
    const check = await service.post('/v1/checks/playwright', suite);
    await service.post('/v2/check-sessions/trigger', { target: { checkId: check.body.id } });
    await enqueue(slug, 1);
    const suites = async (): Promise<(number | undefined)[]> => [
      await gauge('vedette_location_suites_queued', slug),
      await gauge('vedette_location_suites_in_flight', slug),
      await gauge('vedette_location_queue_size', slug),
    ];
    await expect.poll(suites, { timeout: 5000 }).toEqual([2, 0, 3]);
    expect((await series(id)).body.queueSize.at(-1)).toBe(3);
    const agent = await startAgent(service.url, key, ['PLAYWRIGHT']);
    const jobs = [await agent.take(), await agent.take()];
    await expect.poll(suites, { timeout: 5000 }).toEqual([0, 2, 1]);
    for (const job of jobs) await agent.finish(job);
    await expect.poll(suites, { timeout: 5000 }).toEqual([0, 0, 1]);
    agent.leave();
  });

  test('counts what nobody took from zero on, by reason', async () => {
    const { slug } = await service.location();
    const name = `vedette_location_runs_expired_total{location="${slug}",reason="ALL_AGENTS_BUSY"} 0`;
    await expect.poll(async () => metricsText(), { timeout: 5000 }).toContain(name);
    await enqueue(slug, 2);
    await expect.poll(async () => gauge('vedette_location_queue_size', slug), { timeout: 5000 }).toBe(2);
    expect(await gauge('vedette_location_leases_expired_total', slug)).toBe(0);
  });

  test('tells agents that are older than the service', async () => {
    const { id, slug, key } = await service.location();
    const agent = await startAgent(service.url, key, ['URL'], '0.0.9');
    await expect.poll(async () => gauge('vedette_location_agents_outdated', slug), { timeout: 5000 }).toBe(1);
    const { body } = await service.get<Entry[]>('/v1/private-locations', { versions: true });
    const [running] = body.find((each) => each.id === id)!['runningAgents'] as Entry[];
    expect(running).toMatchObject({ isOutdated: true, count: 1 });
    expect(running!['version']).not.toBe(VERSION);
    agent.leave();
  });

  test('asks for the token when there is one', async () => {
    const token = 'scrape-me-0123456789';
    const closed = await startTestService({ METRICS_TOKEN: token });
    for (const authorization of [undefined, 'Bearer wrong', `Basic ${token}`]) {
      const response = await fetch(`${closed.url}/metrics`, {
        headers: authorization === undefined ? {} : { authorization },
      });
      expect(response.status, authorization).toBe(401);
      expect(await response.text()).not.toContain('vedette_');
    }
    expect(await metricsText(closed.url, token)).toContain('vedette_http_request_duration_seconds');
    await closed.stop();
  });
});
