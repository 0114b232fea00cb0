import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeCursor, encodeCursor } from './cursor.ts';

const uuid = fc.uuid();
const micros = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

test('a cursor leads back to where it was made', () => {
  fc.assert(
    fc.property(uuid, uuid, micros, (checkId, id, startedAtMicros) => {
      const at = { startedAtMicros, id };
      expect(decodeCursor(checkId, encodeCursor(checkId, at))).toEqual(at);
    }),
  );
});

test('a cursor with any character changed is refused', () => {
  fc.assert(
    fc.property(uuid, uuid, micros, fc.nat(), (checkId, id, startedAtMicros, n) => {
      const cursor = encodeCursor(checkId, { startedAtMicros, id });
      const at = n % cursor.length;
      const changed = cursor.slice(0, at) + (cursor[at] === 'A' ? 'B' : 'A') + cursor.slice(at + 1);
      expect(() => decodeCursor(checkId, changed)).toThrow('nextId');
    }),
  );
});

test('any other text is refused', () => {
  fc.assert(
    fc.property(uuid, fc.string(), (checkId, text) => {
      expect(() => decodeCursor(checkId, text)).toThrow('nextId');
    }),
  );
});
