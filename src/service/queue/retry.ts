import { RetryStrategy } from '../../checks/index.ts';
import type { RunResult } from '../../contract/index.ts';

/** When a failed try is followed by another, and where. Pure: the queue asks it inside its transaction. */
export interface RetryRule {
  /** Wait before retry n (1, 2, …), ms. */
  waitMs(n: number): number;
  maxRetries: number;
  /** Budget for tries and waits since the first try began, ms. */
  maxDurationMs: number;
  onlyNetwork: boolean;
  elsewhere: boolean;
}

export interface RetryFields {
  /** The check's `retryStrategy`; undefined when absent, null for none. */
  retryStrategy: unknown;
  doubleCheck: boolean;
}

/** Absent strategy with doubleCheck: one immediate retry, in another location if there is one. */
const DOUBLE_CHECK: RetryRule = {
  waitMs: () => 0,
  maxRetries: 1,
  maxDurationMs: Infinity,
  onlyNetwork: false,
  elsewhere: true,
};

export function retryRule({ retryStrategy, doubleCheck }: RetryFields): RetryRule | null {
  if (retryStrategy === undefined) return doubleCheck ? DOUBLE_CHECK : null;
  const parsed = RetryStrategy.safeParse(retryStrategy);
  if (!parsed.success) return null;
  const { type, baseBackoffSeconds: base, maxRetries, maxDurationSeconds, onlyOn, sameRegion } = parsed.data;
  const single = type === 'SINGLE_RETRY';
  return {
    waitMs: (n) => 1000 * backoffSeconds(type, base, n),
    maxRetries: single ? 1 : maxRetries,
    maxDurationMs: single ? Infinity : maxDurationSeconds * 1000,
    onlyNetwork: onlyOn.includes('NETWORK_ERROR'),
    elsewhere: !sameRegion,
  };
}

function backoffSeconds(type: RetryStrategy['type'], base: number, n: number): number {
  switch (type) {
    case 'FIXED':
    case 'SINGLE_RETRY':
      return base;
    case 'LINEAR':
      return base * n;
    case 'EXPONENTIAL':
      return base ** n;
  }
}

/**
 * @param retriesUsed retries before this try
 * @param elapsedMs since the first try began
 * @returns the wait in ms, or null when this outcome is final
 */
export function nextTryMs(
  rule: RetryRule | null,
  result: Pick<RunResult, 'flags' | 'errors'>,
  retriesUsed: number,
  elapsedMs: number,
): number | null {
  const { hasFailures, hasErrors, isCancelled } = result.flags;
  if (rule === null || isCancelled || !(hasFailures || hasErrors)) return null;
  if (retriesUsed >= rule.maxRetries) return null;
  if (rule.onlyNetwork && !result.errors.some(({ network }) => network)) return null;
  const wait = rule.waitMs(retriesUsed + 1);
  return elapsedMs + wait > rule.maxDurationMs ? null : wait;
}
