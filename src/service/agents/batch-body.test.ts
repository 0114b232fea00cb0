import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BatchRefusal, readBatch } from './batch-body.ts';

test('whatever bytes come, under whatever encoding, they are refused with a reason', async () => {
  const bytes = fc.uint8Array({ maxLength: 200 });
  const encoding = fc.constantFrom(undefined, 'gzip', 'zstd', 'identity', 'br', '');
  await fc.assert(
    fc.asyncProperty(bytes, encoding, async (body, name) => {
      await expect(readBatch(Buffer.from(body), name)).rejects.toBeInstanceOf(BatchRefusal);
    }),
  );
});

test('whatever JSON stands for a result, it gets an answer', async () => {
  const envelope = { agentId: '3f0f5a52-8f0e-4f64-9a0c-0d5b7f2f4a11', clockOffsetMs: null };
  await fc.assert(
    fc.asyncProperty(fc.array(fc.jsonValue(), { minLength: 1, maxLength: 100 }), async (results) => {
      const body = JSON.stringify({ ...envelope, sentAt: '2026-11-21T03:00:00.000Z', results });
      const read = await readBatch(gzipSync(body), 'gzip');
      expect(read.map((each) => 'reason' in each)).toEqual(results.map(() => true));
    }),
  );
});
