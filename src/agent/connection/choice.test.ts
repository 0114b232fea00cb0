import { expect, test } from 'vitest';
import { TransportChoice } from './choice.ts';
import { ClockOffset } from './clock-offset.ts';
import { BROKEN } from './link.ts';

const broken = { code: BROKEN, reason: 'reset' };

test('three failed upgrades in a row lead to the long poll, an opened socket forgives them', () => {
  const choice = new TransportChoice();
  choice.openFailed('socket');
  choice.openFailed('socket');
  choice.opened('socket');
  choice.openFailed('socket');
  choice.openFailed('socket');
  expect(choice.kind).toBe('socket');
  choice.openFailed('socket');
  expect(choice.kind).toBe('poll');
  expect(choice.retrySocketMs).toBeGreaterThan(590_000);
});

test('two sockets that die young lead to the long poll', () => {
  const choice = new TransportChoice();
  choice.ended('socket', broken, 500);
  expect(choice.kind).toBe('socket');
  choice.ended('socket', broken, 59_000);
  expect(choice.kind).toBe('poll');
});

test('what the service says itself is not the fault of the socket', () => {
  const choice = new TransportChoice();
  for (const code of [4503, 4401, 4409, 1000]) {
    choice.ended('socket', { code, reason: '' }, 10);
    choice.ended('socket', { code, reason: '' }, 10);
  }
  choice.ended('socket', broken, 3_600_000);
  choice.ended('socket', broken, 10);
  expect(choice.kind).toBe('socket');
});

test('a long poll that cannot be opened either leads back to the socket', () => {
  const choice = new TransportChoice();
  choice.usePoll();
  choice.openFailed('poll');
  expect(choice.kind).toBe('socket');
  expect(choice.retrySocketMs).toBeNull();
});

test('the offset is that of the quickest exchange among the last eight', () => {
  const offset = new ClockOffset();
  expect(offset.offsetMs).toBeNull();
  offset.add({ t0: 1000, t1: 6_200, t2: 6_200 }, 1_400);
  expect(offset.offsetMs).toBe(5_000);
  offset.add({ t0: 2000, t1: 7_011, t2: 7_011 }, 2_020);
  expect(offset.offsetMs).toBe(5_001);
  offset.add({ t0: 3000, t1: 9_000, t2: 9_000 }, 2_000);
  expect(offset.offsetMs).toBe(5_001);
  for (let i = 0; i < 8; i++) offset.add({ t0: 4000, t1: 8_100, t2: 8_100 }, 4_200);
  expect(offset.offsetMs).toBe(4_000);
});
