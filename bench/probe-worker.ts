import { closedLoop } from './measure.ts';
import { createEnvironment, execute } from '../src/checks/execute.ts';

/**
 * The probe side of the benchmark: one process that runs whole checks (definition in, result JSON
 * out) as the agent's probe child does. Reads one order per line, answers one line of figures.
 */
export interface Order {
  checkType: string;
  spec: Record<string, unknown>;
  concurrency: number;
  ms: number;
  max: number;
}
export interface Figures {
  perSecond: number;
  cpuMsPerCheck: number;
  count: number;
  failed: number;
  firstByteMs: number[];
}

const environment = createEnvironment({ useOsResolver: false });

async function run(order: Order): Promise<Figures> {
  let failed = 0;
  const firstByteMs: number[] = [];
  const cpuBefore = process.cpuUsage();
  const job = { checkType: order.checkType, spec: order.spec, timeoutMs: 30_000, proxyUrl: null };
  const { count, seconds } = await closedLoop(order.concurrency, order.ms, order.max, async () => {
    const report = await execute(job, environment, new AbortController().signal);
    const json = JSON.stringify(report);
    if (report.flags.hasFailures || report.flags.hasErrors || json.length === 0) failed++;
    const wait = report.phases['firstByte'];
    if (wait !== undefined) firstByteMs.push(wait);
  });
  const cpu = process.cpuUsage(cpuBefore);
  return {
    perSecond: count / seconds,
    cpuMsPerCheck: (cpu.user + cpu.system) / 1000 / count,
    count,
    failed,
    firstByteMs,
  };
}

process.on('message', (order: Order) => void run(order).then((figures) => process.send?.(figures)));
