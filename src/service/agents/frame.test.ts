import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readFrame, readFrameText } from './frame.ts';

const types = ['hello', 'ready', 'accept', 'decline', 'renew', 'release', 'drain', 'bye'];

describe('a frame', () => {
  test('of whatever text is read, or found bad or unknown, without throwing', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => readFrameText(text).kind !== 'message'));
  });

  test('of whatever JSON under a known type is never taken for more than it is', () => {
    fc.assert(
      fc.property(fc.constantFrom(...types), fc.jsonValue(), (t, d) => {
        const frame = readFrame({ v: 1, t, id: 'a', d });
        return frame.kind === 'bad' ? frame.detail.length <= 500 : frame.kind === 'message';
      }),
    );
  });

  test('of a later type is unknown, not bad', () => {
    expect(readFrame({ v: 1, t: 'artifact', id: 'a', d: {} })).toEqual({ kind: 'unknown' });
    expect(readFrame({ v: 1, t: 'toString', id: 'a', d: {} })).toEqual({ kind: 'unknown' });
  });

  test('that is bad names the field and the message it answers', () => {
    expect(readFrame({ v: 1, t: 'ready', id: 'm7', d: { free: 'many' } })).toMatchObject({
      kind: 'bad',
      id: 'm7',
      detail: expect.stringMatching(/^ready\.d\.free: .*number/),
    });
  });
});
