import { expect, test } from 'vitest';
import { judge, type Done, type JobEnd, type JobFacts } from './outcome.ts';

const MB = 1024 * 1024;
const facts: JobFacts = {
  timeoutMs: 240_000,
  heapMb: 512,
  memoryBytes: 768 * MB,
  processes: 32,
  diskBytes: 200 * MB,
  shouldFail: false,
  gate: null,
  leaving: undefined,
};
const done = (more: Partial<Done> = {}): JobEnd => ({
  how: 'done',
  done: { t: 'done', startTime: 0, endTime: 1, verdict: 'passed', errors: [], degraded: [], ...more },
});
const gone = (exit: {
  code: number | null;
  signal: NodeJS.Signals | null;
  cause: 'exit' | 'crash' | 'out_of_memory';
}): JobEnd => ({
  how: 'exited',
  exit,
});
const failed = done({
  verdict: 'failed',
  errors: [{ message: 'no basket', file: '/script.js', line: 12, column: 3 }],
});

test('passed, degraded, failed', () => {
  expect(judge(done(), facts, false)).toMatchObject({ verdict: 'passed', failures: [] });
  expect(judge(done({ degraded: ['slow'] }), facts, false).verdict).toBe('degraded');
  expect(judge(failed, facts, false)).toMatchObject({
    verdict: 'failed',
    failures: [{ code: 'SCRIPT_ERROR', message: 'no basket (/script.js:12:3)', network: false }],
  });
  expect(judge(done({ verdict: 'failed' }), facts, false).failures).toHaveLength(1);
});

test('shouldFail turns the verdict of the script round, and no other', () => {
  const meant = { ...facts, shouldFail: true };
  expect(judge(failed, meant, false)).toMatchObject({ verdict: 'passed', failures: [] });
  expect(judge(done(), meant, false)).toMatchObject({
    verdict: 'failed',
    failures: [{ code: 'SHOULD_FAIL' }],
  });
  expect(judge({ how: 'overdue' }, meant, false).verdict).toBe('failed');
  expect(judge({ how: 'exceeded', what: 'memory' }, meant, false).verdict).toBe('failed');
});

test.each([
  [{ how: 'overdue' }, 'TIMEOUT', 'the script was not finished within 240 s'],
  [
    { how: 'exceeded', what: 'memory' },
    'MEMORY_LIMIT',
    'the run took more memory than the 768 MB that it may have',
  ],
  [
    { how: 'exceeded', what: 'processes' },
    'PROCESS_LIMIT',
    'the run started more processes than the 32 that it may have at once',
  ],
  [
    { how: 'exceeded', what: 'disk' },
    'DISK_LIMIT',
    'the run wrote more than the 200 MB that its files may have',
  ],
  [
    { how: 'broken', why: 'line too long' },
    'CHANNEL',
    'the script wrote to file descriptor 3, which belongs to the agent (line too long)',
  ],
  [
    gone({ code: 134, signal: null, cause: 'out_of_memory' }),
    'OUT_OF_MEMORY',
    'the script ran out of memory: its JavaScript heap may have 512 MB',
  ],
  [
    gone({ code: 7, signal: null, cause: 'crash' }),
    'PROCESS_EXIT',
    'the process of the script ended by itself, with exit code 7',
  ],
  [
    gone({ code: null, signal: 'SIGSEGV', cause: 'crash' }),
    'PROCESS_EXIT',
    'the process of the script ended by itself, with signal SIGSEGV',
  ],
] as [JobEnd, string, string][])('%j is a failure in one sentence', (end, code, message) => {
  expect(judge(end, facts, false)).toMatchObject({ verdict: 'failed', failures: [{ code, message }] });
});

test('leaving early says how and where', () => {
  const error = { message: 'process.exit was called', file: '/script.js', line: 3, column: 9 };
  const leaving = { t: 'leaving' as const, call: 'process.exit(1)', code: 1, error };
  expect(judge(gone({ code: 1, signal: null, cause: 'crash' }), { ...facts, leaving }, false)).toMatchObject({
    failures: [
      { code: 'PROCESS_EXIT', message: 'the script ended its process with process.exit(1) (/script.js:3:9)' },
    ],
    errors: [error],
  });
});

test('what this machine did is no failure of the target', () => {
  expect(judge(gone({ code: null, signal: 'SIGKILL', cause: 'crash' }), facts, false)).toMatchObject({
    verdict: 'error',
    failures: [{ code: 'KILLED_BY_SYSTEM' }],
  });
});

test('time that ran out is not believed on a starved machine; anything else is', () => {
  const late = done({ verdict: 'failed', errors: [{ message: 'locator.click: Timeout 30000ms exceeded.' }] });
  expect(judge(late, facts, false).verdict).toBe('failed');
  expect(judge(late, facts, true)).toMatchObject({
    verdict: 'error',
    failures: [{ code: 'AGENT_OVERLOADED' }],
  });
  const overdue = { message: 'the setup script was not finished within 10 s' };
  expect(judge(done({ verdict: 'failed', errors: [overdue] }), facts, true).verdict).toBe('error');
  expect(judge({ how: 'overdue' }, facts, true).verdict).toBe('error');
  expect(judge(failed, facts, true).verdict).toBe('failed');
  expect(judge(done(), facts, true).verdict).toBe('passed');
});

test.each([
  ['page.goto: net::ERR_CONNECTION_REFUSED at http://shop.example/', true],
  ['connect ECONNREFUSED 127.0.0.1:1', true],
  ['getaddrinfo ENOTFOUND shop.example', true],
  ['expect(received).toBe(expected)', false],
])('%s: a network failure: %s', (message, network) => {
  const end = done({ verdict: 'failed', errors: [{ message }] });
  expect(judge(end, facts, false).failures[0]!.network).toBe(network);
});

test('texts of any length and number are bounded', () => {
  const errors = Array.from({ length: 500 }, () => ({ message: 'm'.repeat(1e5), stack: 's'.repeat(1e5) }));
  const judged = judge(done({ verdict: 'failed', errors }), facts, false);
  expect(JSON.stringify(judged).length).toBeLessThan(300_000);
  expect(judged.errors).toHaveLength(20);
});
