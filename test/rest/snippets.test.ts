import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { checkBody, startTestService, type Entry, type TestService } from './service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startTestService();
});
afterAll(async () => service.stop());

let names = 0;
const create = async (change: object = {}): Promise<Entry> => {
  const { status, body } = await service.post('/v1/snippets', {
    name: `snippet-${++names}`,
    script: '',
    ...change,
  });
  expect(body).not.toHaveProperty('message');
  expect(status).toBe(201);
  return body;
};

describe('a snippet', () => {
  test('is created, read, listed, changed and deleted', async () => {
    const script = "exports.token = () => 'ü';\n";
    const made = await create({ name: 'login helpers', script });
    expect(made).toEqual({
      id: expect.any(Number),
      name: 'login helpers',
      script,
      created_at: expect.any(String),
      updated_at: null,
    });
    const path = `/v1/snippets/${made.id}`;
    expect((await service.get(path)).body).toEqual(made);
    expect((await service.get<Entry[]>('/v1/snippets')).body).toContainEqual(made);

    const changed = await service.put(path, { script: '1' });
    expect(changed.body).toEqual({ ...made, script: '1', updated_at: expect.any(String) });
    expect((await service.put(path, changed.body)).body).toMatchObject({
      name: 'login helpers',
      script: '1',
    });

    expect((await service.delete(path)).status).toBe(204);
    expect((await service.get(path)).status).toBe(404);
    expect((await service.put(path, { script: '' })).status).toBe(404);
    expect((await service.delete(path)).body.message).toBe(`snippet "${made.id}" does not exist`);
  });

  test.each(['0', 'x', '1.5', '99999999999', '-1'])('with the id %s does not exist', async (id) => {
    expect((await service.get(`/v1/snippets/${id}`)).status).toBe(404);
  });

  test('is listed newest first, in pages', async () => {
    const [first, second, third] = [await create(), await create(), await create()];
    const ids = async (page: number): Promise<string[]> =>
      (await service.get<Entry[]>('/v1/snippets', { limit: 2, page })).body.map(({ id }) => id);
    expect(await ids(1)).toEqual([third.id, second.id]);
    expect((await ids(2))[0]).toBe(first.id);
  });

  test('has a name of its own, also where scripts would find two files as one', async () => {
    await create({ name: 'taken' });
    const other = await create({ name: 'other.js' });
    for (const name of ['taken', 'taken.js', 'other', 'other.js']) {
      const { status, body } = await service.post('/v1/snippets', { name, script: '' });
      expect(status, name).toBe(409);
      expect(body.message).toBe(`name: "${name}" is taken by another snippet`);
    }
    expect((await service.put(`/v1/snippets/${other.id}`, { name: 'taken' })).status).toBe(409);
    expect((await service.put(`/v1/snippets/${other.id}`, { name: 'other' })).status).toBe(200);
  });

  test.each([
    [{ script: '' }, 'name: is required and must be a string'],
    [{ name: 'a' }, 'script: is required and must be a string'],
    [{ name: '', script: '' }, 'name: must not be empty'],
    [{ name: '../x', script: '' }, 'name: must not contain slashes, quotes or control characters'],
    [{ name: '..', script: '' }, 'name: must not be dots only'],
    [{ name: 'x'.repeat(101), script: '' }, 'name: must have at most 100 characters'],
    [{ name: 'a', script: 'x'.repeat(256_001) }, 'script: must have at most 256000 characters'],
    [{ name: 'a', script: '', language: 'js' }, 'language: is not a known field (allowed: name, script)'],
  ])('%j is refused', async (body, message) => {
    const answer = await service.post('/v1/snippets', body);
    expect(answer.status).toBe(400);
    expect(answer.body.message).toContain(message);
  });

  test('is not deleted while a check or a group has it', async () => {
    const { id } = await create();
    const check = await service.post('/v1/checks/api', checkBody('api', { setupSnippetId: id }));
    const group = await service.post('/v2/check-groups', { name: 'its group', tearDownSnippetId: id });
    const refused = await service.delete(`/v1/snippets/${id}`);
    expect(refused.status).toBe(409);
    expect(refused.body.message).toBe(
      'the snippet cannot be deleted while it is the setup or teardown of "a api check", "its group"',
    );
    await service.put(`/v1/checks/api/${check.body.id}`, { setupSnippetId: null });
    await service.put(`/v2/check-groups/${group.body.id}`, { tearDownSnippetId: null });
    expect((await service.delete(`/v1/snippets/${id}`)).status).toBe(204);
  });

  test('that is not there is no setup of anything', async () => {
    const ids = { setupSnippetId: 999_999, tearDownSnippetId: 999_998 };
    const message = 'setupSnippetId: 999999 is not a snippet; tearDownSnippetId: 999998 is not a snippet';
    for (const answer of [
      await service.post('/v1/checks/api', checkBody('api', ids)),
      await service.post('/v2/check-groups', { name: 'x', ...ids }),
    ]) {
      expect(answer.status).toBe(400);
      expect(answer.body.message).toBe(message);
    }
  });
});
