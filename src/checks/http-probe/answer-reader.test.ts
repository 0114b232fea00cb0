import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AnswerReader, type Head } from './answer-reader.ts';

interface Read {
  head: Head | undefined;
  body: string;
  complete: boolean;
  error: string | undefined;
}

/** Feeds the pieces and closes the connection. */
function read(pieces: readonly Buffer[], method = 'GET'): Read {
  const found: Read = { head: undefined, body: '', complete: false, error: undefined };
  const reader = new AnswerReader(method, {
    onHead: (head) => {
      found.head = head;
      return true;
    },
    onBody: (bytes) => {
      found.body += bytes.toString('latin1');
      return true;
    },
    onEnd: () => (found.complete = true),
  });
  try {
    for (const piece of pieces) reader.push(Buffer.from(piece));
    reader.close();
  } catch (error) {
    found.error = (error as { code?: string }).code;
  }
  return found;
}

const whole = (text: string, method?: string): Read => read([Buffer.from(text, 'latin1')], method);

const ANSWERS: Record<string, string> = {
  'with a length': 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello',
  'until the end of the connection': 'HTTP/1.0 200 OK\r\nX-A: b\r\n\r\nhello',
  'in chunks with extensions and trailers':
    'HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nhe\r\n 3 \r\nllo\r\n0\r\nX-T: 1\r\n\r\n',
  'after interim answers':
    'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello',
  'with bare line feeds and folded fields':
    '\r\n\nHTTP/1.1 200\nX-A:\n b\nTransfer-Encoding: chunked\n\n5\nhello\n0\n\n',
};

describe('an answer', () => {
  test.each(['HTTP/1.2 200 OK', 'HTTP/2 200', 'HTTP/2.0 200 OK'])('that says %s is taken', (line) => {
    expect(whole(`${line}\r\nContent-Length: 2\r\n\r\nok`)).toMatchObject({ body: 'ok', complete: true });
  });

  test.each(Object.entries(ANSWERS))('%s is read whole', (_, text) => {
    expect(whole(text)).toMatchObject({
      head: { status: 200, statusText: 'OK', headers: { 'x-a': 'b' } },
      body: 'hello',
      complete: true,
      error: undefined,
    });
  });

  test('means the same however the network cuts it', () => {
    const cuts = fc.tuple(
      fc.constantFrom(...Object.values(ANSWERS)),
      fc.array(fc.nat(250), { maxLength: 40 }),
    );
    fc.assert(
      fc.property(cuts, ([text, at]) => {
        const bytes = Buffer.from(text, 'latin1');
        const places = [0, ...at.filter((n) => n < bytes.length).sort((a, b) => a - b), bytes.length];
        const pieces = places.slice(1).map((end, i) => bytes.subarray(places[i], end));
        expect(read(pieces)).toEqual(read([bytes]));
      }),
    );
  });

  test('may be any bytes at all: a refusal, never a crash', () => {
    const pieces = fc.array(fc.uint8Array({ maxLength: 60 }), { maxLength: 8 });
    fc.assert(
      fc.property(fc.constantFrom('', 'HTTP/1.1 ', ANSWERS['with a length']!), pieces, (start, noise) => {
        const { complete, error, head } = read([
          Buffer.from(start),
          ...noise.map((each) => Buffer.from(each)),
        ]);
        expect(error === undefined || !complete || head !== undefined).toBe(true);
      }),
    );
  });

  test.each([
    ['HEAD has no body', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n', 'HEAD'],
    ['204 has no body', 'HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n', 'GET'],
    ['304 has no body', 'HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n', 'GET'],
    ['a length of 0', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n', 'GET'],
    ['the same length twice', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n', 'GET'],
  ])('%s', (_, text, method) => {
    expect(whole(text, method)).toMatchObject({ body: '', complete: true, error: undefined });
  });

  test.each([
    ['nothing of HTTP', 'SSH-2.0-OpenSSH\r\n', 'HPE_INVALID_CONSTANT'],
    ['a body alone, as in HTTP/0.9', '<html></html>', 'HPE_INVALID_CONSTANT'],
    ['another version', 'HTTP/3.0 200 OK\r\n\r\n', 'HPE_INVALID_VERSION'],
    ['interim answers without end', 'HTTP/1.1 103 E\r\nX: y\r\n\r\n'.repeat(15_000), 'HPE_HEADER_OVERFLOW'],
    [
      'trailers without end',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${'X-T: 1\r\n'.repeat(50_000)}`,
      'HPE_HEADER_OVERFLOW',
    ],
    ['no status', 'HTTP/1.1 OK\r\n\r\n', 'HPE_INVALID_STATUS'],
    ['a status of four digits', 'HTTP/1.1 2000 OK\r\n\r\n', 'HPE_INVALID_STATUS'],
    ['a field without colon', 'HTTP/1.1 200 OK\r\nnothing\r\n\r\n', 'HPE_INVALID_HEADER_TOKEN'],
    [
      'a length that is no number',
      'HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n',
      'HPE_INVALID_CONTENT_LENGTH',
    ],
    [
      'two lengths',
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n',
      'HPE_UNEXPECTED_CONTENT_LENGTH',
    ],
    [
      'a chunk that is too long',
      `${ANSWERS['in chunks with extensions and trailers']!.split('2;')[0]}2\r\nhello\r\n`,
      'HPE_INVALID_CHUNK_SIZE',
    ],
    [
      'a chunk size without end',
      `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1'.repeat(20_000)}`,
      'HPE_INVALID_CHUNK_SIZE',
    ],
    ['endless fields', `HTTP/1.1 200 OK\r\nX: ${'a'.repeat(300_000)}`, 'HPE_HEADER_OVERFLOW'],
  ])('that is %s is refused', (_, text, code) => {
    expect(whole(text).error).toBe(code);
  });

  test('that drips in byte by byte costs no more than its bytes', () => {
    const bytes = Buffer.from(`HTTP/1.1 200 OK\r\nX-A: ${'b'.repeat(200_000)}\r\nContent-Length: 0\r\n\r\n`);
    const pieces = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    expect(read(pieces)).toMatchObject({ complete: true, head: { status: 200 } });
  });

  test('that is cut short is not complete', () => {
    expect(whole('HTTP/1.1 200 OK\r\nContent-')).toMatchObject({ head: undefined, complete: false });
    expect(whole('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello')).toMatchObject({
      body: 'hello',
      complete: false,
    });
    expect(whole('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n')).toMatchObject({
      complete: false,
    });
  });
});
