import dnsPacket, { type Answer } from 'dns-packet';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeMessage,
  encodeName,
  encodeQuery,
  MalformedMessage,
  parseServer,
  rdataText,
  TYPE,
} from './index.ts';
import { readName } from './name.ts';

const label = fc.uint8Array({ minLength: 1, maxLength: 63 });

describe('names', () => {
  test('any bytes survive the way to text and back', () => {
    fc.assert(
      fc.property(fc.array(label, { maxLength: 3 }), (labels) => {
        const wire = Buffer.concat([
          ...labels.flatMap((each) => [Buffer.of(each.length), each]),
          Buffer.of(0),
        ]);
        const { text, next } = readName(wire, 0);
        expect(next).toBe(wire.length);
        expect(encodeName(text).equals(wire)).toBe(true);
      }),
    );
  });

  test('with or without a last dot a name is the same', () => {
    expect(encodeName('a.example')).toEqual(encodeName('a.example.'));
    expect(encodeName('.')).toEqual(Buffer.of(0));
  });

  test.each(['a..b', '.a', '..', 'a..', 'x'.repeat(64), 'a.'.repeat(128), 'a\\'])('%j is no name', (name) => {
    expect(() => encodeName(name)).toThrow(expect.objectContaining({ name: 'BadName' }));
  });
});

describe('messages', () => {
  test('a query is what the common library reads', () => {
    const bytes = encodeQuery({
      id: 4711,
      name: encodeName('_a.Example.'),
      type: TYPE['HTTPS']!,
      ednsSize: 1232,
    });
    const read = dnsPacket.decode(bytes);
    expect(read).toMatchObject({
      id: 4711,
      flag_rd: true,
      flag_ad: true,
      questions: [{ name: '_a.Example', class: 'IN' }],
    });
    expect(read.additionals).toMatchObject([{ type: 'OPT', udpPayloadSize: 1232 }]);
    expect(bytes.readUInt16BE(bytes.length - 15)).toBe(65);
  });

  const answers: Answer[] = [
    { type: 'A', name: 'a.example', ttl: 1, data: '192.0.2.1' },
    { type: 'MX', name: 'a.example', ttl: 2, data: { preference: 5, exchange: 'mx.example' } },
    { type: 'TXT', name: 'a.example', ttl: 3, data: ['one', 'two'] },
  ];
  const good = dnsPacket.encode({
    type: 'response',
    id: 1,
    questions: [{ type: 'A', name: 'a.example' }],
    answers,
  });

  test('an answer of the common library is read alike', () => {
    const message = decodeMessage(good);
    expect(message.answers.map((record) => [record.ttl, rdataText(message.bytes, record)])).toEqual([
      [1, '192.0.2.1'],
      [2, '5 mx.example.'],
      [3, '"one" "two"'],
    ]);
  });

  /** Reads everything there is; only the one error is allowed. */
  const readAll = (bytes: Buffer): void => {
    try {
      const message = decodeMessage(bytes);
      const records = [...message.answers, ...message.authorities, ...message.additionals];
      for (const record of records) rdataText(message.bytes, record);
    } catch (error) {
      expect(error).toBeInstanceOf(MalformedMessage);
    }
  };

  test('no bytes at all make the decoder fail in another way', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => readAll(Buffer.from(bytes))));
    const change = fc.record({ at: fc.nat(good.length - 1), value: fc.nat(255) });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 8 }), (changes) => {
        const bytes = Buffer.from(good);
        for (const { at, value } of changes) bytes[at] = value;
        readAll(bytes);
      }),
    );
  });
});

test.each([
  ['10.0.0.2', { address: '10.0.0.2', port: 53 }],
  ['10.0.0.2:5353', { address: '10.0.0.2', port: 5353 }],
  ['::1', { address: '::1', port: 53 }],
  ['[::1]:5353', { address: '::1', port: 5353 }],
  ['dns.example', undefined],
  ['10.0.0.300', undefined],
])('the server %s is read as %j', (text, server) => {
  expect(parseServer(text)).toEqual(server);
});
