import { setTimeout as sleep } from 'node:timers/promises';
import { serveProbe } from '../../src/agent/probes/serve.ts';
import type { TryReport } from '../../src/checks/execute.ts';
import type { Job } from '../../src/contract/index.ts';

/**
 * A probe process whose checks do what their definition says, for tests of what is around them:
 * `sleepMs`, then `end`: report (default), exit, hang, leak, throw, or text that is no report.
 */
serveProbe(() => async (job, signal) => {
  const { sleepMs = 0, deaf = false, end = 'report', text = '' } = job.spec;
  await sleep(Number(sleepMs), undefined, deaf ? {} : { signal });
  switch (end) {
    case 'exit':
      return process.exit(9);
    case 'hang':
      for (;;);
    case 'leak':
      return leak();
    case 'throw':
      throw new Error('broken on purpose');
    case 'nonsense':
      return { nonsense: true } as unknown as TryReport;
    default:
      return report(job, String(text));
  }
});

function leak(): never {
  const kept: unknown[] = [];
  for (;;) kept.push(Array.from({ length: 1000 }, () => ({})));
}

function report(job: Job, text: string): TryReport {
  const now = new Date().toISOString();
  return {
    startedAt: now,
    stoppedAt: now,
    responseTimeMs: 1,
    flags: {
      hasFailures: job.spec['fails'] === true,
      hasErrors: false,
      isDegraded: false,
      isCancelled: false,
      overMaxResponseTime: false,
    },
    errors: [],
    phases: { total: 1 },
    statusCode: 200,
    measured: { eventLoopDelayMs: 0, resolvedAddress: '127.0.0.1' },
    detail: { apiCheckResult: { pid: process.pid, text } },
  };
}
