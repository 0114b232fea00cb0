import { execFileSync } from 'node:child_process';
import { expect, test } from 'vitest';

const source = (file: string): string => new URL(`../../src/${file}`, import.meta.url).href;

/** What a program prints that logs in this format, and ends. */
function printed(format: 'json' | 'pretty'): string {
  const program = `
    import { createLog } from '${source('kit/log.ts')}';
    import { createScrubber } from '${source('agent/scrub/index.ts')}';
    const scrubber = createScrubber(['pl_0123456789abcdef']);
    const scrub = (line) => scrubber.text(line);
    const log = createLog({ level: 'info', format: '${format}', name: 'agent', scrub });
    log.warn({ detail: 'authorization: Bearer pl_0123456789abcdef' }, 'an event');
    log.child({ more: Buffer.from('pl_0123456789abcdef').toString('base64') }).info('another event');
  `;
  return execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
}

test.each(['json', 'pretty'] as const)('the log of the agent holds no secret in any form: %s', (format) => {
  const text = printed(format);
  expect(text).toContain('an event');
  expect(text).toContain('authorization: Bearer *********');
  expect(text).toContain('another event');
  expect(text).not.toMatch(/0123456789abcdef|MDEyMzQ1Njc4OWFiY2RlZ/);
  if (format === 'json')
    for (const line of text.trim().split('\n')) expect(JSON.parse(line).name).toBe('agent');
});
