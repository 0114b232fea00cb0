import { createHash, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OpenArtifact, PART_BYTES } from '../../src/contract/index.ts';
import { derivedId } from '../../src/kit/ids.ts';
import { describeUnless } from '../support/programs.ts';
import {
  BUILD_MS,
  lacksObjectStore,
  startObjectStore,
  type ObjectStore,
} from '../support/targets/object-store.ts';
import { post } from '../wire/client.ts';
import { failedBy, startAgent } from './agent.ts';
import { API_KEY, checkBody, freshDataDir, startTestService, type TestService } from './service.ts';

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

describeUnless(lacksObjectStore, 'artifacts in a bucket', () => {
  let bucket: ObjectStore;
  let service: TestService;
  const dataDir = freshDataDir();
  const start = async (): Promise<TestService> =>
    startTestService(
      {
        BLOB_STORE: 's3://artifacts/vedette',
        S3_ENDPOINT: bucket.settings.s3Endpoint,
        S3_ACCESS_KEY_ID: bucket.settings.s3AccessKeyId,
        S3_SECRET_ACCESS_KEY: bucket.settings.s3SecretAccessKey,
      },
      dataDir,
    );
  beforeAll(async () => {
    bucket = await startObjectStore();
    bucket.makeBucket('artifacts');
    service = await start();
  }, BUILD_MS);
  afterAll(async () => {
    await service.stop();
    await bucket[Symbol.asyncDispose]();
  });

  test('an upload goes on after the service was started anew, and is read whole and in part', async () => {
    const trace = randomBytes(2 * PART_BYTES + 100);
    const { slug, key } = await service.location();
    const check = await service.post(
      '/v1/checks/url',
      checkBody('url', { activated: false, locations: [], privateLocations: [slug], retryStrategy: null }),
    );
    const agent = await startAgent(service.url, key);
    await service.post('/v2/check-sessions/trigger', { target: { checkId: check.body.id } });
    const job = await agent.take();
    const about = {
      name: 'trace.zip',
      contentType: 'application/zip',
      size: trace.length,
      sha256: sha256(trace),
    };
    await agent.finish(job, {
      ...failedBy('SCRIPT_ERROR', 'it failed', false),
      artifacts: [{ ...about, kind: 'trace', state: 'pending' }],
    });
    agent.leave();

    const resultId = derivedId(job.sequenceId, job.attempt, job.token);
    const authorization = `Bearer ${key}`;
    const open = async () => {
      const answer = await post(`${service.url}${OpenArtifact.path}`, key, { ...about, resultId });
      return OpenArtifact.reply.parse(await answer.json());
    };
    const put = async (id: string, n: number): Promise<number> => {
      const part = new Uint8Array(trace.subarray((n - 1) * PART_BYTES, n * PART_BYTES));
      const url = `${service.url}/agent/v1/artifacts/${id}/parts/${n}`;
      const headers = {
        authorization,
        'content-type': 'application/octet-stream',
        'x-part-sha256': sha256(part),
      };
      return (await fetch(url, { method: 'PUT', headers, body: part })).status;
    };
    const complete = async (id: string): Promise<number> => {
      const url = `${service.url}/agent/v1/artifacts/${id}/complete`;
      return (await fetch(url, { method: 'POST', headers: { authorization } })).status;
    };

    const { artifactId } = await open();
    expect(await put(artifactId, 1)).toBe(204);
    expect(await complete(artifactId)).toBe(409);
    await service.service.stop();
    service = await start();
    expect(await open()).toMatchObject({ artifactId, have: [1], state: 'open' });
    expect([await put(artifactId, 3), await put(artifactId, 2)]).toEqual([204, 204]);
    expect(await complete(artifactId)).toBe(200);

    const url = `${service.url}/v1/check-results/${check.body.id}/${resultId}/assets/${artifactId}`;
    const read = async (headers: object = {}) =>
      fetch(url, { headers: { authorization: `Bearer ${API_KEY}`, ...headers } });
    expect(sha256(await (await read()).bytes())).toBe(about.sha256);
    const [from, to] = [PART_BYTES - 10, PART_BYTES + 9];
    const middle = await read({ range: `bytes=${from}-${to}` });
    expect([middle.status, await middle.bytes()]).toEqual([
      206,
      new Uint8Array(trace.subarray(from, to + 1)),
    ]);
  }, 60_000);
});
