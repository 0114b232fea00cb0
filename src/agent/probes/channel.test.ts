import { duplexPair } from 'node:stream';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { openChannel } from './channel.ts';

test('messages arrive whole and in order, however the bytes are cut', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.string({ unit: 'grapheme' }), { minLength: 1 }),
      fc.nat(7),
      async (texts, cut) => {
        const [left, right] = duplexPair();
        const got: string[] = [];
        openChannel<object, { text: string }>(
          right,
          ({ text }) => got.push(text),
          () => {},
        );
        const bytes = Buffer.from(texts.map((text) => `${JSON.stringify({ text })}\n`).join(''));
        for (let i = 0; i < bytes.length; i += cut + 1) left.write(bytes.subarray(i, i + cut + 1));
        await vi.waitUntil(() => got.length === texts.length, { interval: 1 });
        expect(got).toEqual(texts);
      },
    ),
    { numRuns: 30 },
  );
});

test('what one turn sends leaves in one write', async () => {
  const [left, right] = duplexPair();
  const write = vi.spyOn(left, 'write');
  const got: number[] = [];
  const send = openChannel<{ n: number }, object>(
    left,
    () => {},
    () => {},
  );
  openChannel<object, { n: number }>(
    right,
    ({ n }) => got.push(n),
    () => {},
  );
  for (let n = 0; n < 100; n++) send({ n });
  await vi.waitUntil(() => got.length === 100);
  expect(write).toHaveBeenCalledTimes(1);
});

test.each(['{"half":\n', `${'x'.repeat(17 * 1024 * 1024)}`])(
  'a side that is out of order is cut off',
  async (text) => {
    const [left, right] = duplexPair();
    const broken = vi.fn<(why: string) => void>();
    openChannel(right, () => {}, broken);
    left.write(text);
    await vi.waitUntil(() => broken.mock.calls.length > 0);
    expect(broken).toHaveBeenCalledTimes(1);
    expect(right.destroyed).toBe(true);
  },
);
