import type { TryReport } from '../../checks/execute.ts';
import { RunResult, unobserved, type Job } from '../../contract/index.ts';
import { wallMs } from '../../kit/clock.ts';
import { derivedId } from '../../kit/ids.ts';
import type { Finished } from '../ports.ts';

/**
 * Ties a report to its run. What comes from a probe has been near a target, so it is read as strictly
 * as anything from the network: a report that is not one becomes a fault of the agent.
 */
export function resultOf(job: Job, { report, files, refused }: Finished): RunResult {
  const { runId, sequenceId, token, attempt } = job;
  const ids = { resultId: derivedId(sequenceId, attempt, token), runId, sequenceId, token, attempt };
  // The schema drops where the bytes are.
  const sent = files.map((file) => ({ ...file, state: 'pending' as const }));
  const artifacts = [...sent, ...refused];
  const parsed = RunResult.safeParse({ ...report, ...ids, ...(artifacts.length > 0 ? { artifacts } : {}) });
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const fault = faultReport('REPORT_INVALID', `the probe sent no report: ${issue?.path.join('.')}`, wallMs());
  return { ...fault, ...ids };
}

export function withoutFiles(report: TryReport): Finished;
export function withoutFiles(report: TryReport | undefined): Finished | undefined;
export function withoutFiles(report: TryReport | undefined): Finished | undefined {
  return report && { report, files: [], refused: [] };
}

/** The agent could not observe the target. */
export function faultReport(code: string, message: string, startedWallMs: number): TryReport {
  return blankReport(startedWallMs, { hasErrors: true }, [{ code, message, network: false }]);
}

export function cancelledReport(startedWallMs: number): TryReport {
  return blankReport(startedWallMs, { isCancelled: true }, []);
}

function blankReport(
  startedWallMs: number,
  flags: Partial<TryReport['flags']>,
  errors: TryReport['errors'],
): TryReport {
  return {
    startedAt: new Date(startedWallMs).toISOString(),
    stoppedAt: new Date(wallMs()).toISOString(),
    ...unobserved(flags),
    errors,
  };
}
