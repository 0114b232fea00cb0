import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { Job, RunResult } from '../../contract/index.ts';
import type { Recorder } from '../ports.ts';
import { ResultMetrics } from './result-metrics.ts';

/** What is read at each scrape instead of counted. */
export interface Readings {
  connected: boolean;
  transport: string | null;
  slotsTotal: number;
  slotsFree: number;
  running: number;
  waiting: number;
  spoolResults: number;
  spoolBytes: number;
  spoolDead: number;
  probes: number;
  probesRssBytes: number;
  /** Runs under way, by what they need. */
  runningByClass: Readonly<Record<string, number>>;
  /** Script processes that wait for a job, by kind. */
  spares: Readonly<Record<string, number>>;
  /** How the walls around user code stand: full, partial or none. */
  sandbox: string;
}

/** The metrics of one agent. Labels have few values, but for those of ResultMetrics, which bounds its own. */
export class AgentMetrics implements Recorder {
  readonly #registry = new Registry();
  readonly #results = new ResultMetrics(this.#registry);
  readonly #started = this.#counter('vedette_agent_tries_started_total', 'Tries begun', ['type']);
  readonly #finished = this.#counter('vedette_agent_tries_total', 'Tries ended', ['type', 'verdict']);
  readonly #declined = this.#counter('vedette_agent_offers_declined_total', 'Runs not taken', ['reason']);
  readonly #lost = this.#counter('vedette_agent_leases_lost_total', 'Runs ended because of their lease', [
    'why',
  ]);
  readonly #probesEnded = this.#counter('vedette_agent_probes_ended_total', 'Probe processes ended', [
    'cause',
  ]);
  readonly #scriptsEnded = this.#counter(
    'vedette_agent_scripts_ended_total',
    'Processes of user code that ended by themselves or went over a limit',
    ['kind', 'cause'],
  );
  readonly #ignored = this.#counter('vedette_agent_messages_ignored_total', 'Messages not understood', [
    'why',
  ]);
  readonly #uploads = this.#counter('vedette_agent_uploads_total', 'Result batches sent', ['outcome']);
  readonly #uploaded = this.#counter('vedette_agent_results_sent_total', 'Results in them', ['outcome']);
  readonly #seconds = new Histogram({
    name: 'vedette_agent_try_seconds',
    help: 'Duration of tries from begin to report',
    labelNames: ['type'],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 240, 900, 1800, 3600],
    registers: [this.#registry],
  });
  readonly #loopDelay = new Histogram({
    name: 'vedette_agent_probe_loop_delay_seconds',
    help: "Largest delay of the probe's event loop during each try",
    buckets: [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1],
    registers: [this.#registry],
  });

  constructor(version: string, read: () => Readings) {
    this.#registry.setDefaultLabels({});
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 100 });
    new Gauge({
      name: 'vedette_agent_info',
      help: 'The running version',
      labelNames: ['version'],
      registers: [this.#registry],
    }).set({ version }, 1);
    this.#readings(read);
  }

  /** The text that Prometheus scrapes. */
  text(): Promise<string> {
    return this.#registry.metrics();
  }

  tryStarted(checkType: string): void {
    this.#started.inc({ type: checkType });
  }
  tryFinished(job: Job, result: RunResult): void {
    this.#finished.inc({ type: job.checkType, verdict: verdictOf(result) });
    const seconds = (Date.parse(result.stoppedAt) - Date.parse(result.startedAt)) / 1000;
    this.#seconds.observe({ type: job.checkType }, Math.max(0, seconds));
    this.#loopDelay.observe(result.measured.eventLoopDelayMs / 1000);
    this.#results.record(job, result);
  }
  tryAbandoned(job: Job): void {
    this.#finished.inc({ type: job.checkType, verdict: 'abandoned' });
  }
  declined(reason: string): void {
    this.#declined.inc({ reason });
  }
  leaseLost(why: string): void {
    this.#lost.inc({ why });
  }
  probeEnded(cause: string): void {
    this.#probesEnded.inc({ cause });
  }
  scriptEnded(kind: string, cause: string): void {
    this.#scriptsEnded.inc({ kind, cause });
  }
  messageIgnored(why: string): void {
    this.#ignored.inc({ why });
  }
  upload(outcome: string, results: number): void {
    this.#uploads.inc({ outcome });
    this.#uploaded.inc({ outcome }, results);
  }

  #counter<L extends string>(name: string, help: string, labelNames: L[]): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #readings(read: () => Readings): void {
    const gauge = (name: string, help: string, value: (now: Readings) => number): void => {
      new Gauge({
        name,
        help,
        registers: [this.#registry],
        collect() {
          this.set(value(read()));
        },
      });
    };
    gauge('vedette_agent_connected', '1 while a session with the service is up', (r) => Number(r.connected));
    gauge('vedette_agent_long_poll', '1 while the long poll replaces the socket', (r) =>
      Number(r.transport === 'poll'),
    );
    gauge('vedette_agent_slots', 'Runs at once', (r) => r.slotsTotal);
    gauge('vedette_agent_slots_free', 'Runs that could be started now', (r) => r.slotsFree);
    gauge('vedette_agent_runs', 'Runs under way', (r) => r.running);
    gauge('vedette_agent_runs_waiting', 'Runs that wait for a probe process', (r) => r.waiting);
    gauge('vedette_agent_spool_results', 'Results that the service does not have yet', (r) => r.spoolResults);
    gauge('vedette_agent_spool_bytes', 'Their size', (r) => r.spoolBytes);
    gauge('vedette_agent_spool_dead', 'Results that the service will never take', (r) => r.spoolDead);
    gauge('vedette_agent_probes', 'Probe processes', (r) => r.probes);
    gauge('vedette_agent_probes_rss_bytes', 'Their resident memory', (r) => r.probesRssBytes);
    const gauges = (
      name: string,
      help: string,
      label: string,
      values: (now: Readings) => Readonly<Record<string, number>>,
    ): void => {
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers: [this.#registry],
        collect() {
          for (const [of, value] of Object.entries(values(read()))) this.set({ [label]: of }, value);
        },
      });
    };
    gauges(
      'vedette_agent_runs_by_class',
      'Runs under way by what they need',
      'class',
      (r) => r.runningByClass,
    );
    gauges('vedette_agent_scripts_warm', 'Script processes that wait for a run', 'kind', (r) => r.spares);
    gauges('vedette_agent_sandbox', '1 for how the walls around user code stand', 'state', (r) => ({
      [r.sandbox]: 1,
    }));
  }
}

function verdictOf({ flags }: RunResult): string {
  if (flags.isCancelled) return 'cancelled';
  if (flags.hasErrors) return 'error';
  if (flags.hasFailures) return 'failed';
  return flags.isDegraded ? 'degraded' : 'passed';
}
