import { describe, expect, test } from 'vitest';
import { Gather } from './gather.ts';

/** Remembers its groups and answers each item with its double. */
function doubling(): { gather: Gather<number, number>; groups: number[][] } {
  const groups: number[][] = [];
  const run = async (items: readonly number[]): Promise<number[]> => {
    groups.push([...items]);
    return Promise.resolve(items.map((item) => item * 2));
  };
  return { gather: new Gather(run, String, 5), groups };
}

describe('gathered calls', () => {
  test('share one group and get their own answers', async () => {
    const { gather, groups } = doubling();
    expect(await Promise.all([1, 2, 3].map(async (item) => gather.call(item)))).toEqual([2, 4, 6]);
    expect(groups).toEqual([[1, 2, 3]]);
  });

  test('begin a new group when the same thing is named twice', async () => {
    const { gather, groups } = doubling();
    await Promise.all([1, 2, 1, 3].map(async (item) => gather.call(item)));
    expect(groups).toEqual([
      [1, 2],
      [1, 3],
    ]);
  });

  test('go out without waiting when a group is full', async () => {
    const { gather, groups } = doubling();
    const items = Array.from({ length: 1201 }, (_, index) => index);
    await Promise.all(items.map(async (item) => gather.call(item)));
    expect(groups.map(({ length }) => length)).toEqual([500, 500, 201]);
  });

  test('all fail when their group does; the next group is not affected', async () => {
    let fails = true;
    const gather = new Gather<number, number>(
      async (items) => {
        if (fails) throw new Error('no store');
        return Promise.resolve([...items]);
      },
      String,
      1,
    );
    const both = await Promise.allSettled([gather.call(1), gather.call(2)]);
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    fails = false;
    expect(await gather.call(1)).toBe(1);
  });
});
