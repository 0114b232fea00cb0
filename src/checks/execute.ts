import type { RunResult } from '../contract/results.ts';
import type { Limiter } from './limiter.ts';
import type { Resolver } from './resolve.ts';

/** What all checks of one process share. Made once by the process that runs them. */
export interface Environment {
  readonly resolver: Resolver;
  readonly handshakes: Limiter;
}

/** One try of a check: the check type's name, its definition as the service stores it, its limits. */
export interface ExecuteJob {
  checkType: string;
  spec: unknown;
  timeoutMs: number;
  /** Proxy for HTTP targets; null without. */
  proxyUrl: string | null;
}

/** A result without the names that only the one who holds the lease knows. */
export type TryReport = Omit<RunResult, 'resultId' | 'runId' | 'sequenceId' | 'token' | 'attempt'>;
