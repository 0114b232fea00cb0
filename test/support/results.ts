import type { RunResult } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';

let nextRunId = 1;

/** A result that passed; `detail` gives it a size. */
export function runResult(more: Partial<RunResult> = {}): RunResult {
  return {
    resultId: newId(),
    runId: nextRunId++,
    sequenceId: newId(),
    token: 1,
    attempt: 0,
    startedAt: '2026-01-01T00:00:00.000Z',
    stoppedAt: '2026-01-01T00:00:01.000Z',
    responseTimeMs: 1000,
    flags: {
      hasFailures: false,
      hasErrors: false,
      isDegraded: false,
      isCancelled: false,
      overMaxResponseTime: false,
    },
    errors: [],
    phases: { dns: 1, tcp: 2, tls: 3, firstByte: 4, download: 5, total: 15 },
    statusCode: 200,
    measured: { eventLoopDelayMs: 0, resolvedAddress: '127.0.0.1' },
    detail: {},
    ...more,
  };
}
