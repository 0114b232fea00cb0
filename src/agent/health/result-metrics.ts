import { Gauge, type Registry } from 'prom-client';
import type { Job, RunResult } from '../../contract/index.ts';

/** Checks with series of their own; beyond it the one that ran longest ago loses them. */
const MAX_CHECKS = 1000;

/** Our phases by blackbox_exporter's names. */
const PHASES: readonly (readonly [ours: string, theirs: string])[] = [
  ['dns', 'resolve'],
  ['tcp', 'connect'],
  ['tls', 'tls'],
  ['firstByte', 'processing'],
  ['download', 'transfer'],
];

interface Last {
  job: Job;
  result: RunResult;
}

/**
 * The last result of each check under blackbox_exporter's names, so that dashboards and alerts made
 * for it work. Written out at each scrape; a run that could not observe its target changes nothing.
 */
export class ResultMetrics {
  readonly #last = new Map<string, Last>();

  constructor(registry: Registry) {
    this.#gauge(registry, 'probe_success', 'Whether the last run of the check passed', ({ result }) =>
      result.flags.hasFailures ? 0 : 1,
    );
    this.#gauge(
      registry,
      'probe_duration_seconds',
      'How long the last run of the check took',
      ({ result }) => (result.responseTimeMs === null ? undefined : result.responseTimeMs / 1000),
    );
    this.#gauge(registry, 'probe_dns_lookup_time_seconds', 'Time to resolve the name', ({ result }) =>
      secondsOf(result, 'dns'),
    );
    this.#gauge(registry, 'probe_http_status_code', 'Status code of the answer', ({ job, result }) =>
      isHttp(job) ? (result.statusCode ?? 0) : undefined,
    );
    this.#phases(registry);
  }

  record(job: Job, result: RunResult): void {
    if (result.flags.hasErrors || result.flags.isCancelled) return;
    this.#last.delete(job.checkId);
    this.#last.set(job.checkId, { job, result });
    if (this.#last.size > MAX_CHECKS) this.#last.delete(this.#last.keys().next().value ?? '');
  }

  #gauge(registry: Registry, name: string, help: string, value: (last: Last) => number | undefined): void {
    const last = this.#last;
    new Gauge({
      name,
      help,
      labelNames: ['check_id', 'check_name', 'check_type'],
      registers: [registry],
      collect() {
        this.reset();
        for (const each of last.values()) {
          const found = value(each);
          if (found !== undefined) this.set(labelsOf(each.job), found);
        }
      },
    });
  }

  #phases(registry: Registry): void {
    const last = this.#last;
    new Gauge({
      name: 'probe_http_duration_seconds',
      help: 'Duration of each phase of the HTTP request',
      labelNames: ['check_id', 'check_name', 'check_type', 'phase'],
      registers: [registry],
      collect() {
        this.reset();
        for (const { job, result } of last.values()) {
          if (!isHttp(job)) continue;
          for (const [ours, phase] of PHASES) {
            this.set({ ...labelsOf(job), phase }, secondsOf(result, ours) ?? 0);
          }
        }
      },
    });
  }
}

const isHttp = ({ checkType }: Job): boolean => checkType === 'API' || checkType === 'URL';

const labelsOf = ({ checkId, name, checkType }: Job): Record<string, string> => ({
  check_id: checkId,
  check_name: name,
  check_type: checkType,
});

function secondsOf(result: RunResult, phase: string): number | undefined {
  const ms = result.phases[phase];
  return ms === undefined ? undefined : ms / 1000;
}
