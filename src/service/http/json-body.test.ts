import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Refusal } from '../verbs/index.ts';
import { readJson } from './json-body.ts';

test('a body that can be stored is read as it is', () => {
  const text = fc.string({ unit: 'grapheme' }).filter((each) => !each.includes('\0') && each !== '__proto__');
  const value = fc.letrec((tie) => ({
    any: fc.oneof({ maxDepth: 5 }, text, fc.integer(), fc.boolean(), tie('list'), tie('object')),
    list: fc.array(tie('any'), { maxLength: 5 }),
    object: fc.dictionary(text, tie('any'), { maxKeys: 5, noNullPrototype: true }),
  })).any;
  fc.assert(
    fc.property(value, (each) => {
      expect(readJson(Buffer.from(JSON.stringify(each)))).toEqual(each);
    }),
  );
});

test('bytes of any kind are read or refused, never more', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        readJson(Buffer.from(bytes));
      } catch (error) {
        expect(error).toBeInstanceOf(Refusal);
      }
    }),
  );
});
