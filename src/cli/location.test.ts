import { expect, test } from 'vitest';
import { slugOf } from './location.ts';

test.each([
  ['my-laptop', 'my-laptop'],
  ['Anna’s MacBook.local', 'anna-s-macbook'],
  ['ip_10_0_0_1', 'ip-10-0-0-1'],
  ['us-east-1-web', 'at-us-east-1-web'],
  ['', 'this-machine'],
  ['…', 'this-machine'],
  ['a'.repeat(29) + '-b', 'a'.repeat(29)],
])('host %j becomes slug %s', (hostname, slug) => {
  expect(slugOf(hostname)).toBe(slug);
  expect(slug).toMatch(/^[a-zA-Z0-9-]{1,30}$/);
});
