import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import { isOlder, VERSION } from '../../kit/version.ts';
import type { Loads } from '../load/index.ts';
import { EXPIRY_REASONS, type Losses } from '../queue/index.ts';
import type { LocationLoad } from '../store/index.ts';

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

/** What is told of each private location. Accounts may use the same slug: `join` makes one value of theirs. */
const LOCATION_GAUGES: readonly {
  name: string;
  help: string;
  /** Undefined while there is nothing to tell. */
  of: (load: LocationLoad) => number | undefined;
  join: (values: readonly number[]) => number;
}[] = [
  {
    name: 'vedette_location_queue_size',
    help: 'Runs that are due and wait for an agent',
    of: ({ queued }) => queued,
    join: sum,
  },
  {
    name: 'vedette_location_oldest_run_age_seconds',
    help: 'How long the oldest run that waits has been due; 0 when none waits',
    of: ({ oldestSeconds }) => oldestSeconds,
    join: (values) => Math.max(...values),
  },
  {
    name: 'vedette_location_runs_in_flight',
    help: 'Runs that agents have',
    of: ({ inFlight }) => inFlight,
    join: sum,
  },
  {
    name: 'vedette_location_suites_queued',
    help: 'Playwright suites, or parts of them, among the runs that wait',
    of: ({ suitesQueued }) => suitesQueued,
    join: sum,
  },
  {
    name: 'vedette_location_suites_in_flight',
    help: 'Playwright suites, or parts of them, that agents have',
    of: ({ suitesInFlight }) => suitesInFlight,
    join: sum,
  },
  {
    name: 'vedette_location_agents',
    help: 'Connected agents',
    of: ({ fleets }) => sum(fleets.map(({ agents }) => agents)),
    join: sum,
  },
  {
    name: 'vedette_location_slots',
    help: 'Runs that the connected agents take at once',
    of: ({ fleets }) => sum(fleets.map(({ slots }) => slots)),
    join: sum,
  },
  {
    name: 'vedette_location_agents_outdated',
    help: 'Connected agents that are older than this service',
    of: ({ fleets }) =>
      sum(fleets.filter(({ version }) => isOlder(version, VERSION)).map(({ agents }) => agents)),
    join: sum,
  },
  {
    name: 'vedette_location_last_seen_timestamp_seconds',
    help: 'When an agent was heard last; absent until the first one comes',
    of: ({ lastSeen }) => (lastSeen === null ? undefined : lastSeen.getTime() / 1000),
    join: (values) => Math.max(...values),
  },
];

/**
 * What the service tells about itself at /metrics. Labels have few values: routes and locations, never
 * ids. Gauges of locations come from the store, so each replica tells the same: take their maximum.
 * Counters are of this process: take their sum.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly #registers = [this.registry];
  readonly #requests = new Histogram({
    name: 'vedette_http_request_duration_seconds',
    help: 'Time from the arrival of a request to the end of its answer',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 30],
    registers: this.#registers,
  });
  readonly #expired = new Counter({
    name: 'vedette_location_runs_expired_total',
    help: 'Runs that no agent took in time, by location and reason',
    labelNames: ['location', 'reason'],
    registers: this.#registers,
  });
  readonly #silent = new Counter({
    name: 'vedette_location_leases_expired_total',
    help: 'Runs taken back from agents that fell silent',
    labelNames: ['location'],
    registers: this.#registers,
  });

  constructor() {
    collectDefaultMetrics({ register: this.registry });
  }

  /** Where the queue counts what it had to give up. */
  get losses(): Losses {
    return {
      expired: (location, reason) => this.#expired.inc({ location, reason }),
      silent: (location) => this.#silent.inc({ location }),
    };
  }

  /** Adds the gauges of locations. While the store does not answer they are absent, and all else is there. */
  watch(loads: Pick<Loads, 'current'>): void {
    const known = async (): Promise<readonly LocationLoad[]> => {
      try {
        const all = await loads.current();
        for (const { slug } of all) this.#begin(slug);
        return all;
      } catch {
        return [];
      }
    };
    for (const { name, help, of, join } of LOCATION_GAUGES) {
      new Gauge({
        name,
        help,
        labelNames: ['location'],
        registers: this.#registers,
        async collect() {
          const bySlug = Map.groupBy(await known(), ({ slug }) => slug);
          this.reset();
          for (const [location, same] of bySlug) {
            const values = same.map(of).filter((value) => value !== undefined);
            if (values.length > 0) this.set({ location }, join(values));
          }
        },
      });
    }
  }

  /** A counter that begins at 0 shows its first increase. */
  #begin(location: string): void {
    this.#silent.inc({ location }, 0);
    for (const reason of EXPIRY_REASONS) this.#expired.inc({ location, reason }, 0);
  }

  /** @param route as declared, with its parameters in braces */
  request(method: string, route: string, status: number, seconds: number): void {
    this.#requests.observe({ method, route, status }, seconds);
  }
}
