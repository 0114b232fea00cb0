import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());
beforeEach(async () => {
  for (const { key } of await all()) await service.delete(pathOf(String(key)));
});

const all = async (query = {}): Promise<Entry[]> =>
  (await service.get<Entry[]>('/v1/variables', { limit: 100, ...query })).body;
const pathOf = (key: string): string => `/v1/variables/${encodeURIComponent(key)}`;
const create = async (body: object) => service.post('/v1/variables', body);

describe('a variable', () => {
  test('is created with defaults, read, listed, changed and deleted', async () => {
    const made = await create({ key: 'BASE_URL', value: 'https://a.test' });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      key: 'BASE_URL',
      value: 'https://a.test',
      locked: false,
      secret: false,
      created_at: expect.any(String),
      updated_at: null,
    });
    expect((await service.get(pathOf('BASE_URL'))).body).toEqual(made.body);
    expect(await all()).toEqual([made.body]);

    const changed = await service.put(pathOf('BASE_URL'), { value: 'https://b.test', locked: true });
    expect(changed.status).toBe(200);
    expect(changed.body).toEqual({
      ...made.body,
      value: 'https://b.test',
      locked: true,
      updated_at: expect.any(String),
    });
    const back = await service.put(pathOf('BASE_URL'), changed.body);
    expect(back.body).toEqual({ ...changed.body, updated_at: expect.any(String) });

    expect((await service.delete(pathOf('BASE_URL'))).status).toBe(204);
    for (const answer of [
      await service.get(pathOf('BASE_URL')),
      await service.put(pathOf('BASE_URL'), { value: 'x' }),
      await service.delete(pathOf('BASE_URL')),
    ]) {
      expect(answer.status).toBe(404);
      expect(answer.body.message).toBe('variable "BASE_URL" does not exist');
    }
  });

  test('may have any name that is one word, and any text', async () => {
    for (const key of ['a/b', 'ümlaut', '50%', '$', '__proto__']) {
      expect((await create({ key, value: 'line\nline "ü"' })).status, key).toBe(201);
      expect((await service.get(pathOf(key))).body).toMatchObject({ key, value: 'line\nline "ü"' });
    }
    expect((await create({ key: 'EMPTY', value: '' })).body['value']).toBe('');
  });

  test('is listed by key, in pages', async () => {
    for (const key of ['C', 'A', 'B']) await create({ key, value: key });
    const keys = async (query: object): Promise<unknown[]> => (await all(query)).map(({ key }) => key);
    expect(await keys({})).toEqual(['A', 'B', 'C']);
    expect(await keys({ limit: 2 })).toEqual(['A', 'B']);
    expect(await keys({ limit: 2, page: 2 })).toEqual(['C']);
    expect(await keys({ page: 2 })).toEqual([]);
    expect((await service.get('/v1/variables', { limit: 101 })).status).toBe(400);
  });

  test('has a key of its own', async () => {
    await create({ key: 'TWICE', value: '1' });
    const { status, body } = await create({ key: 'TWICE', value: '2' });
    expect(status).toBe(409);
    expect(body.message).toBe('key: "TWICE" is taken by another variable');
    expect((await service.get(pathOf('TWICE'))).body['value']).toBe('1');
  });

  test.each([
    [{}, 'key: is required and must be a string; value: is required and must be a string'],
    [{ key: '', value: '' }, 'key: must not be empty'],
    [{ key: 'a b', value: '' }, 'key: must not contain spaces, = or control characters'],
    [{ key: 'a=b', value: '' }, 'key: must not contain spaces, = or control characters'],
    [{ key: 'x'.repeat(256), value: '' }, 'key: must have at most 255 characters'],
    [{ key: 'A', value: 5 }, 'value: must be a string'],
    [{ key: 'A', value: 'x'.repeat(10_001) }, 'value: must have at most 10000 characters'],
    [{ key: 'A', value: '', secret: 'yes' }, 'secret: must be true or false'],
    [
      { key: 'A', value: '', hidden: true },
      'hidden: is not a known field (allowed: key, value, locked, secret)',
    ],
  ])('%j is refused', async (body, message) => {
    const answer = await create(body);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(message);
    expect(await all()).toEqual([]);
  });

  test('keeps its key', async () => {
    await create({ key: 'OLD', value: '1' });
    const { status, body } = await service.put(pathOf('OLD'), { key: 'NEW' });
    expect(status).toBe(400);
    expect(body.message).toBe('key: cannot change');
  });

  test('has room with the others only, since all of them go with each job', async () => {
    const value = 'ä'.repeat(5000);
    for (let n = 0; n < 19; n++) expect((await create({ key: `K${n}`, value })).status).toBe(201);
    const { status, body } = await create({ key: 'K19', value: 'x'.repeat(10_000) });
    expect(status).toBe(400);
    expect(body.message).toBe(
      'value: the variables of the account would have 200050 bytes together; at most 200000 are allowed',
    );
    expect((await service.put(pathOf('K0'), { value: 'short' })).status).toBe(200);
    expect((await create({ key: 'K19', value: 'x'.repeat(10_000) })).status).toBe(201);
    expect((await service.put(pathOf('K0'), { value })).status).toBe(400);
  });
});

describe('a secret', () => {
  const secret = 'hunter2-hunter2';
  const make = async (): Promise<void> => {
    expect((await create({ key: 'PASSWORD', value: secret, secret: true })).status).toBe(201);
  };

  test('is never shown', async () => {
    const made = await create({ key: 'PASSWORD', value: secret, secret: true });
    expect(made.body).toMatchObject({ value: null, secret: true });
    const updated = await service.put(pathOf('PASSWORD'), { value: `${secret}!` });
    const answers = [
      made,
      updated,
      await service.get(pathOf('PASSWORD')),
      await service.get('/v1/variables'),
    ];
    for (const { body } of answers) expect(JSON.stringify(body)).not.toContain(secret);
    const again = await create({ key: 'PASSWORD', value: secret, secret: true });
    expect(again.status).toBe(409);
    expect(JSON.stringify(again.body)).not.toContain(secret);
  });

  test('becomes readable only with a new value', async () => {
    await make();
    for (const change of [{ secret: false }, { secret: false, value: null }]) {
      const { status, body } = await service.put(pathOf('PASSWORD'), change);
      expect(status).toBe(400);
      expect(body.message).toBe('value: is required when a secret becomes readable');
    }
    const { body } = await service.put(pathOf('PASSWORD'), { secret: false, value: 'open' });
    expect(body).toMatchObject({ value: 'open', secret: false });
  });
});
