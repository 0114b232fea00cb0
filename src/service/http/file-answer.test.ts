import { expect, test } from 'vitest';
import { FileAnswer, rangeOf } from './file-answer.ts';

test.each([
  [undefined, undefined],
  ['bytes=0-', { start: 0, end: 10 }],
  ['bytes=2-4', { start: 2, end: 5 }],
  ['bytes=2-99', { start: 2, end: 10 }],
  ['bytes=9-9', { start: 9, end: 10 }],
  ['bytes=-3', { start: 7, end: 10 }],
  ['bytes=-30', { start: 0, end: 10 }],
  ['bytes=10-', 'none'],
  ['bytes=-0', 'none'],
  ['bytes=4-2', undefined],
  ['bytes=0-1,3-4', undefined],
  ['bytes=-', undefined],
  ['lines=1-2', undefined],
  ['bytes=a-b', undefined],
])('of 10 bytes, %s asks for %j', (header, range) => {
  expect(rangeOf(header, 10)).toEqual(range);
});

test('nothing of an empty file can be asked for by range', () => {
  expect(rangeOf('bytes=0-', 0)).toBe('none');
  expect(rangeOf('bytes=-5', 0)).toBe('none');
});

const file = (change: object) => ({
  name: 'a.txt',
  contentType: 'text/plain',
  size: 0,
  tag: 't',
  read: async function* () {},
  ...change,
});

test.each([
  [
    'screenshots/after login.png',
    `attachment; filename="after login.png"; filename*=UTF-8''after%20login.png`,
  ],
  ['a"\r\nb.txt', `attachment; filename="a___b.txt"; filename*=UTF-8''a%22%0D%0Ab.txt`],
  ['größe(1).png', `attachment; filename="gr__e(1).png"; filename*=UTF-8''gr%C3%B6%C3%9Fe%281%29.png`],
  ['a/', `attachment; filename="file"; filename*=UTF-8''file`],
  ['\ud800', `attachment; filename="_"; filename*=UTF-8''%EF%BF%BD`],
])('%j is offered under its own name', (name, disposition) => {
  expect(FileAnswer.of(file({ name }), {}).headers['content-disposition']).toBe(disposition);
});

test.each([
  ['text/html', 'text/html'],
  ['image/svg+xml', 'image/svg+xml'],
  ['text/html; charset=x\r\nset-cookie: a=b', 'application/octet-stream'],
  ['', 'application/octet-stream'],
])('a file of type %j is sent as %s, without scripts and without an origin', (contentType, sent) => {
  const { headers } = FileAnswer.of(file({ contentType }), {});
  expect(headers['content-type']).toBe(sent);
  expect(headers['content-security-policy']).toBe("default-src 'none'; sandbox");
});
