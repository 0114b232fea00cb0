import { expect, test } from 'vitest';
import { expiryReason } from './expiry.ts';

const run = { check_type: 'URL', excluded_agents: ['b'] };

test.each([
  ['NO_AGENT_CONNECTED', []],
  ['NO_CAPABLE_AGENT', [{ id: 'a', check_types: ['DNS'] }]],
  ['NO_CAPABLE_AGENT', [{ id: 'b', check_types: ['URL'] }]],
  [
    'ALL_AGENTS_BUSY',
    [
      { id: 'b', check_types: ['URL'] },
      { id: 'a', check_types: ['DNS', 'URL'] },
    ],
  ],
])('%s', (reason, agents) => {
  expect(expiryReason(run, agents)).toBe(reason);
});
