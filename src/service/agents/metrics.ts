import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** What the agents' end of the wire counts. Labels are few: no agent, location or run is one. */
export interface AgentMetrics {
  sessions: Gauge<'carrier'>;
  hellos: Counter<'outcome'>;
  helloSeconds: Histogram;
  messages: Counter<'type'>;
  badMessages: Counter;
  closes: Counter<'code'>;
  jobs: Counter<'event'>;
  results: Counter<'status'>;
  refusedBatches: Counter<'status'>;
  batchSeconds: Histogram;
}

/** Registers the metrics; once per registry. */
export function agentMetrics(registry: Registry): AgentMetrics {
  const registers = [registry];
  const buckets = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
  return {
    sessions: new Gauge({
      name: 'vedette_agent_sessions',
      help: 'Agents connected to this process',
      labelNames: ['carrier'],
      registers,
    }),
    hellos: new Counter({
      name: 'vedette_agent_hellos_total',
      help: 'Hellos of agents by outcome: welcome, or the close code',
      labelNames: ['outcome'],
      registers,
    }),
    helloSeconds: new Histogram({
      name: 'vedette_agent_hello_seconds',
      help: 'From a hello to its welcome',
      buckets,
      registers,
    }),
    messages: new Counter({
      name: 'vedette_agent_messages_total',
      help: 'Messages of agents by type; unknown types are ignored',
      labelNames: ['type'],
      registers,
    }),
    badMessages: new Counter({
      name: 'vedette_agent_bad_messages_total',
      help: 'Frames of agents that could not be read',
      registers,
    }),
    closes: new Counter({
      name: 'vedette_agent_closes_total',
      help: 'Sessions and sockets closed by the service, by close code',
      labelNames: ['code'],
      registers,
    }),
    jobs: new Counter({
      name: 'vedette_agent_jobs_total',
      help: 'Jobs offered, accepted, declined by reason, released, lost or too large to send',
      labelNames: ['event'],
      registers,
    }),
    results: new Counter({
      name: 'vedette_agent_results_total',
      help: 'Results received, by receipt',
      labelNames: ['status'],
      registers,
    }),
    refusedBatches: new Counter({
      name: 'vedette_agent_refused_batches_total',
      help: 'Result batches refused, by HTTP status',
      labelNames: ['status'],
      registers,
    }),
    batchSeconds: new Histogram({
      name: 'vedette_agent_batch_seconds',
      help: 'From a parsed result batch to its commit',
      buckets,
      registers,
    }),
  };
}
