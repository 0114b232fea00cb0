import { assertionMessage, type EvaluatedAssertion } from './assertions.ts';
import type { Failure, Outcome } from './check-type.ts';

/** What a try found, for the rules that all monitors share. */
export interface Findings {
  /** Failures of the target itself; their presence is enough for the verdict. */
  failures: readonly Failure[];
  assertions: readonly EvaluatedAssertion[];
  /** What the thresholds apply to, ms; null when nothing was measured. */
  measuredMs: number | null;
  limits: { degradedResponseTime: number | null; maxResponseTime: number | null };
  /** `response time`, `average latency`: for the message. */
  measure: string;
  /** Degraded for a reason of the type's own. */
  degraded?: boolean;
}

/** Failed beats degraded beats passed. A threshold is passed when the measure is above it. */
export function judge(
  findings: Findings,
): Pick<Outcome, 'verdict' | 'overMaxResponseTime' | 'failures' | 'lateByMs'> {
  const { measuredMs, limits, measure } = findings;
  const isOver = (limit: number | null): boolean =>
    measuredMs !== null && limit !== null && measuredMs > limit;
  const overMaxResponseTime = isOver(limits.maxResponseTime);
  const failures = [
    ...findings.failures,
    ...findings.assertions.filter(({ passed }) => !passed).map(asFailure),
  ];
  if (overMaxResponseTime) {
    const message = `the ${measure} of ${roundMs(measuredMs ?? 0)} ms is above the limit of ${limits.maxResponseTime} ms`;
    failures.push({ code: 'MAX_RESPONSE_TIME', message, network: false });
  }
  const degraded = isOver(limits.degradedResponseTime) || findings.degraded === true;
  return {
    verdict: failures.length > 0 ? 'failed' : degraded ? 'degraded' : 'passed',
    overMaxResponseTime,
    failures,
    lateByMs: lateBy(findings),
  };
}

/**
 * By how much the measure would have to be smaller for a better verdict; null where time alone cannot
 * make it better.
 */
function lateBy({ failures, assertions, measuredMs, limits, degraded }: Findings): number | null {
  const missed = assertions.filter(({ passed }) => !passed);
  const isTime = ({ source, comparison, error }: EvaluatedAssertion): boolean =>
    source === 'RESPONSE_TIME' && comparison === 'LESS_THAN' && error === null;
  if (measuredMs === null || failures.length > 0 || !missed.every(isTime)) return null;
  const over = [...missed.map(({ target }) => Number(target)), limits.maxResponseTime]
    .filter((limit) => limit !== null && measuredMs >= limit)
    .map((limit) => measuredMs - Number(limit));
  if (over.length > 0) return Math.max(...over);
  const { degradedResponseTime: slow } = limits;
  return slow !== null && measuredMs > slow && degraded !== true ? measuredMs - slow : null;
}

const asFailure = (assertion: EvaluatedAssertion): Failure => ({
  code: 'ASSERTION',
  message: assertionMessage(assertion),
  network: false,
});

/** Durations in results have three decimals: whole µs. */
export const roundMs = (ms: number): number => Math.round(ms * 1000) / 1000;
