import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { ServiceContext } from '../ports.ts';
import { sessions } from '../store/index.ts';
import { RunState } from '../store/schema.ts';

const stateNames = new Map(Object.entries(RunState).map(([name, state]) => [state as number, name]));

/** What the service tells about itself at /metrics. Labels have few values: routes, never ids. */
export class Metrics {
  readonly registry = new Registry();
  readonly #requests = new Histogram({
    name: 'vedette_http_request_duration_seconds',
    help: 'Time from the arrival of a request to the end of its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 30],
    registers: [this.registry],
  });

  constructor(context: Pick<ServiceContext, 'store'>) {
    collectDefaultMetrics({ register: this.registry });
    const { db } = context.store;
    new Gauge({
      name: 'vedette_runs',
      help: 'Runs of the last two days, by state',
      labelNames: ['state'],
      registers: [this.registry],
      async collect() {
        this.reset();
        for (const { state, count } of await sessions.countRuns(db)) {
          this.set({ state: stateNames.get(state) ?? String(state) }, count);
        }
      },
    });
    new Gauge({
      name: 'vedette_runs_expired',
      help: 'Runs of the last two days that no agent took in time, by location and reason',
      labelNames: ['location', 'reason'],
      registers: [this.registry],
      async collect() {
        this.reset();
        for (const { location, reason, count } of await sessions.countExpiredRuns(db)) {
          this.set({ location, reason: reason ?? '' }, count);
        }
      },
    });
  }

  /** @param route as declared, with its parameters in braces */
  request(method: string, route: string, status: number, seconds: number): void {
    this.#requests.observe({ method, route, status }, seconds);
  }
}
