import { randomBytes } from 'node:crypto';
import { text as readAll } from 'node:stream/consumers';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createScrubber, MASK, secretsOf, type Scrubber } from './index.ts';

const SECRET = 'p@ss "w/örd\'<&>é\\ 1';
const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Through a pass, cut at these places. */
function inChunks(scrubber: Scrubber, text: string, cuts: readonly number[], isJson = false): string {
  const bytes = Buffer.from(text);
  const pass = scrubber.pass({ isJson });
  const out: Buffer[] = [];
  let from = 0;
  for (const cut of [...cuts, bytes.length].map((c) => Math.min(c, bytes.length)).sort((a, b) => a - b)) {
    out.push(Buffer.from(pass.push(bytes.subarray(from, cut))));
    from = cut;
  }
  return Buffer.concat([...out, Buffer.from(pass.end())]).toString();
}

describe('forms', () => {
  const percent = (text: string): string => encodeURIComponent(text);
  test.each([
    ['as it is', SECRET],
    ['encodeURIComponent', percent(SECRET)],
    ['lower-case escapes', percent(SECRET).replace(/%../g, (code) => code.toLowerCase())],
    ['encodeURI', encodeURI(SECRET)],
    ['a form', new URLSearchParams([['k', SECRET]]).toString().slice(2)],
    ['RFC 3986', percent(SECRET).replaceAll("'", '%27')],
    ['an address in an address', percent(percent(SECRET))],
    ['a query', new URL(`http://h/?k=${SECRET.replaceAll('&', '%26')}`).search.slice(3).replace('%26', '&')],
    ['JSON', JSON.stringify(SECRET).slice(1, -1)],
    ['JSON with slashes escaped', JSON.stringify(SECRET).slice(1, -1).replaceAll('/', '\\/')],
    ['JSON in ASCII', JSON.stringify(SECRET).slice(1, -1).replace('ö', '\\u00f6').replace('é', '\\u00e9')],
    [
      'JSON in ASCII, upper case',
      JSON.stringify(SECRET).slice(1, -1).replace('ö', '\\u00F6').replace('é', '\\u00E9'),
    ],
    ['JSON in JSON', JSON.stringify(JSON.stringify(SECRET)).slice(3, -3)],
    ['JSON in JSON in JSON', JSON.stringify(JSON.stringify(JSON.stringify(SECRET))).slice(7, -7)],
    ['HTML', 'p@ss "w/örd\'&lt;&amp;&gt;é\\ 1'],
    ['an HTML attribute', 'p@ss &quot;w/örd&#39;&lt;&amp;&gt;é\\ 1'],
    ['an HTML attribute, hexadecimal', 'p@ss &quot;w/örd&#x27;&lt;&amp;&gt;é\\ 1'],
    ['XML', 'p@ss &quot;w/örd&apos;&lt;&amp;&gt;é\\ 1'],
    ['hex', Buffer.from(SECRET).toString('hex')],
    ['HEX', Buffer.from(SECRET).toString('hex').toUpperCase()],
    ['base64', base64(SECRET).replace(/=+$/, '')],
    ['base64url', Buffer.from(SECRET).toString('base64url')],
  ])('%s', (_, form) => {
    const scrubber = createScrubber([SECRET]);
    expect(scrubber.text(`before ${form} after`)).toBe(`before ${MASK} after`);
  });

  test.each([0, 1, 2, 3, 4, 5])('base64 of the secret behind %i bytes', (before) => {
    const secret = 'correct-horse-battery';
    for (const after of ['', '1', '12', '123']) {
      const text = createScrubber([secret]).text(base64(`${'x'.repeat(before)}${secret}${after}`));
      expect(text).toContain(MASK);
      // No more than what a character shares with a neighbour is left of it.
      const [left = '', right = ''] = text.split(MASK);
      expect(left.length).toBeLessThanOrEqual(Math.ceil((before * 8) / 6));
      expect(right.replace(/=/g, '').length).toBeLessThanOrEqual(Math.ceil((after.length * 8 + 4) / 6));
    }
  });

  test('the lines of a key, each alone', () => {
    const lines = Array.from({ length: 5 }, () => randomBytes(48).toString('base64'));
    const key = `-----BEGIN PRIVATE KEY-----\n${lines.join('\n')}\n-----END PRIVATE KEY-----\n`;
    const scrubber = createScrubber([key]);
    expect(scrubber.text(key)).toBe(MASK);
    expect(scrubber.text(key.trim())).toBe(MASK);
    for (const line of lines) expect(scrubber.text(`> ${line}`)).toBe(`> ${MASK}`);
  });

  test.each(['/', '*', '123', 'abc', 'http://', 'https://', '/artifact/', MASK, 'true', ''])(
    '%j is no secret',
    (value) => {
      const scrubber = createScrubber([value]);
      expect(scrubber.empty).toBe(true);
      const text = `GET https://h/artifact/123abc true ${MASK}`;
      expect(scrubber.text(text)).toBe(text);
    },
  );
});

describe('texts', () => {
  test('places that overlap or touch become one mask', () => {
    const scrubber = createScrubber(['abcdefgh', 'efghijkl', 'mnopq']);
    expect(scrubber.text('-abcdefghijklmnopq-abcd-mnopq')).toBe(`-${MASK}-abcd-${MASK}`);
  });

  test('the longest of several with the same beginning', () => {
    const scrubber = createScrubber(['token', 'token-1234', 'token-12345678']);
    expect(scrubber.text('token token-1234 token-12345678 token-9')).toBe(
      `${MASK} ${MASK} ${MASK} ${MASK}-9`,
    );
  });

  test('a text without secrets is returned as it is, unpaired surrogates too', () => {
    const scrubber = createScrubber(['secret-1']);
    expect(scrubber.text('plain \ud800 text')).toBe('plain \ud800 text');
  });

  test('a secret that is added counts from then on', () => {
    const scrubber = createScrubber([]);
    expect(scrubber.text('later-secret')).toBe('later-secret');
    scrubber.add('later-secret');
    expect(scrubber.empty).toBe(false);
    expect(scrubber.text('later-secret')).toBe(MASK);
  });

  test('more than can be looked for: nothing but the mask leaves', () => {
    const scrubber = createScrubber([]);
    for (let i = 0; i < 2000; i++) scrubber.add(`secret number ${i}`);
    expect(scrubber.text('harmless')).toBe(MASK);
    expect(scrubber.value({ a: ['harmless', 1] })).toEqual({ [MASK]: [MASK, 1] });
    expect(inChunks(scrubber, 'harmless '.repeat(100), [5, 200])).toBe(MASK);
    expect(createScrubber(['x'.repeat(2_000_000)]).text('harmless')).toBe(MASK);
  });
});

describe('values', () => {
  const scrubber = createScrubber(['secret-1', 'secret-2']);

  test('strings and keys at any depth; the rest stays', () => {
    const value = { a: [1, null, true, { 'x secret-1': 'y secret-2 z' }], b: 'plain' };
    expect(scrubber.value(value)).toEqual({
      a: [1, null, true, { [`x ${MASK}`]: `y ${MASK} z` }],
      b: 'plain',
    });
    expect(value.a[3]).toEqual({ 'x secret-1': 'y secret-2 z' });
  });

  test('nothing is copied where nothing changes', () => {
    const value = { same: { a: [1, 'b'] }, other: ['secret-1'] };
    const scrubbed = scrubber.value(value);
    expect(scrubbed.same).toBe(value.same);
    expect(scrubber.value(scrubbed)).toBe(scrubbed);
  });

  test('keys that become the same mask are all kept', () => {
    expect(scrubber.value({ 'secret-1': 1, 'secret-2': 2 })).toEqual({ [MASK]: 1, [`${MASK} 2`]: 2 });
  });

  test('no way to a prototype, and no end of the stack', () => {
    const value: unknown = JSON.parse('{"__proto__": {"polluted": "secret-1"}}');
    const scrubbed = scrubber.value(value);
    expect(Object.getPrototypeOf(scrubbed)).toBe(Object.prototype);
    expect(JSON.stringify(scrubbed)).toBe(`{"__proto__":{"polluted":"${MASK}"}}`);
    const deep: unknown = JSON.parse('['.repeat(50_000) + ']'.repeat(50_000));
    expect(JSON.stringify(scrubber.value(deep))).toContain(MASK);
  });
});

describe('streams', () => {
  test('a pipeline of single bytes', async () => {
    const bytes = Array.from(Buffer.from(`a ${SECRET} b ${base64(SECRET)}`), (byte) => Buffer.from([byte]));
    const stream = Readable.from(bytes).pipe(createScrubber([SECRET]).stream());
    expect(await readAll(stream)).toMatch(/^a \*{9} b \*{9}=*$/);
  });

  test('what is held back stays small, with secrets of any length', () => {
    const secret = randomBytes(20_000).toString('base64');
    const scrubber = createScrubber([secret]);
    const pass = scrubber.pass();
    let given = 0;
    let got = 0;
    for (let i = 0; i < 100; i++) {
      const chunk = randomBytes(1000);
      given += chunk.length;
      got += pass.push(chunk).length;
      expect(given - got).toBeLessThan(128);
    }
    expect(inChunks(scrubber, `<${secret}>${secret}`, [100, 5000, 30_000])).toBe(`<${MASK}>${MASK}`);
  });

  test('long secrets of characters of any size, at any length', () => {
    for (const character of ['x', 'ö', '€', '🔑']) {
      for (let length = 20; length < 90; length++) {
        const secret = Array.from({ length }, (_, i) => `${character}${i}`).join('');
        expect(createScrubber([secret]).text(`<${secret}>`)).toBe(`<${MASK}>`);
      }
    }
  });

  test('texts that nearly are secrets at every place', () => {
    const secrets = Array.from({ length: 59 }, (_, i) => `${'a'.repeat(i + 4)}b`);
    const scrubber = createScrubber(secrets);
    const text = 'a'.repeat(200_000);
    expect(scrubber.text(text)).toBe(text);
    expect(scrubber.text(`${text}b`)).toBe(`${'a'.repeat(200_000 - 62)}${MASK}`);
  });

  test('numbers of JSON stay readable, numbers in its strings do not stay', () => {
    const scrubber = createScrubber(['123456', 'token-9876']);
    const json = JSON.stringify({ n: 123456, s: 'pin "123456"', list: [-123456.5], t: 'token-9876' });
    for (let cut = 0; cut <= json.length; cut++) {
      expect(JSON.parse(inChunks(scrubber, json, [cut], true))).toEqual({
        n: 123456,
        s: `pin "${MASK}"`,
        list: [-123456.5],
        t: MASK,
      });
    }
    expect(inChunks(scrubber, json, [])).not.toContain('123456');
  });
});

const anySecret = fc
  .oneof(
    fc.string({ minLength: 4, maxLength: 40, unit: 'binary' }),
    fc.string({ minLength: 4, maxLength: 12 }),
  )
  .filter((secret) => !secret.includes('*') && !createScrubber([secret]).empty);

const encoders: readonly ((text: string) => string)[] = [
  (text) => text,
  (text) => encodeURIComponent(text),
  (text) => new URLSearchParams([['', text]]).toString().slice(1),
  (text) => JSON.stringify(text).slice(1, -1),
  (text) => JSON.stringify(JSON.stringify(text)).slice(3, -3),
  (text) => Buffer.from(text).toString('hex'),
  (text) => Buffer.from(text).toString('base64url'),
];

/** A text in which secrets stand in any form, also half. */
const secretsAndText = fc.array(anySecret, { minLength: 1, maxLength: 6 }).chain((secrets) =>
  fc.record({
    secrets: fc.constant(secrets),
    parts: fc.array(
      fc.oneof(
        fc.string({ maxLength: 20 }),
        fc
          .tuple(fc.constantFrom(...secrets), fc.constantFrom(...encoders), fc.nat(50))
          .map(([secret, encode, cut]) => (cut < 25 ? encode(secret).slice(0, cut) : encode(secret))),
      ),
      { maxLength: 12 },
    ),
  }),
);

describe('for any secrets and any text', () => {
  test('the same leaves however the bytes are cut', () => {
    fc.assert(
      fc.property(secretsAndText, fc.array(fc.nat(400), { maxLength: 20 }), ({ secrets, parts }, cuts) => {
        const scrubber = createScrubber(secrets);
        const text = parts.join('').toWellFormed();
        expect(inChunks(scrubber, text, cuts)).toBe(inChunks(scrubber, text, []));
        expect(inChunks(scrubber, text, cuts)).toBe(scrubber.text(text));
      }),
    );
  });

  test('no form of a secret is left', () => {
    fc.assert(
      fc.property(secretsAndText, ({ secrets, parts }) => {
        const left = createScrubber(secrets).text(parts.join(''));
        for (const secret of secrets) {
          for (const encode of encoders) expect(left).not.toContain(encode(secret.toWellFormed()));
        }
      }),
    );
  });

  test('what is no secret is left alone', () => {
    fc.assert(
      fc.property(secretsAndText, ({ secrets, parts }) => {
        const text = parts.join('').toWellFormed().replaceAll('*', '-');
        const pieces = createScrubber(secrets).text(text).split(MASK);
        let at = 0;
        for (const piece of pieces) {
          const found = text.indexOf(piece, at);
          expect(found).toBeGreaterThanOrEqual(at);
          at = found + piece.length;
        }
      }),
    );
  });
});

describe('secretsOf', () => {
  const job = (spec: Record<string, unknown>, proxyUrl: string | null = null) => ({ spec, proxyUrl });

  test('secret variables, those named so, credentials, and the own ones', () => {
    const spec = {
      environmentVariables: [
        { key: 'A', value: 'plain-value', secret: false },
        { key: 'B', value: 'stored-secret', secret: true },
        { key: 'SERVICE_SECRET_C', value: 'named-secret' },
      ],
      request: {
        url: 'https://user:p%40ssword@host/path',
        basicAuth: { username: 'u', password: 'basic-password' },
      },
    };
    expect(secretsOf(job(spec, 'http://proxy-token@proxy:3128'), ['pl_key'])).toEqual([
      'stored-secret',
      'named-secret',
      'proxy-token',
      'p%40ssword',
      'p@ssword',
      'basic-password',
      'pl_key',
    ]);
  });

  test.each([
    {},
    { environmentVariables: 'none', request: 7 },
    {
      environmentVariables: null,
      request: { url: 'https://{{USER}}:{{PASS}}@h', basicAuth: { password: '{{P}}' } },
    },
    { request: { url: 'not an address', basicAuth: null } },
    { request: { url: 'https://host/a@b:c@d' } },
  ])('nothing in %j', (spec) => {
    expect(secretsOf(job(spec), [])).toEqual([]);
  });
});
