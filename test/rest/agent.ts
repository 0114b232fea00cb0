import type { Job, RunResult } from '../../src/contract/index.ts';
import { connectSocket, post, welcomed } from '../wire/client.ts';
import { resultOf } from '../wire/harness.ts';

const TYPES = ['API', 'BROWSER', 'DNS', 'ICMP', 'MULTI_STEP', 'PLAYWRIGHT', 'TCP', 'URL'];

/** An agent whose checks find whatever the test says. */
export interface ScriptedAgent {
  /** Takes the next job and accepts it. */
  take(): Promise<Job>;
  finish(job: Job, change?: Partial<RunResult>): Promise<void>;
  /** Takes jobs and passes them until `count` are done. */
  pass(count: number): Promise<void>;
  readonly closed: Promise<{ code: number }>;
  leave(): void;
}

export async function startAgent(
  url: string,
  key: string,
  checkTypes = TYPES,
  version?: string,
): Promise<ScriptedAgent> {
  const total = 100;
  const { agent, say } = await welcomed(connectSocket, url, key, {
    total,
    checkTypes,
    ...(version && { version }),
  });
  const waiting: Job[] = [];
  const room = { free: total, freeByClass: { script: total, browser: total, suite: total } };
  say('ready', room);
  const take = async (): Promise<Job> => {
    const job = waiting.shift();
    if (job !== undefined) return job;
    const { d } = await agent.next('offer', 15_000);
    say('accept', { runs: d.jobs.map(({ runId, token }) => ({ runId, token })) });
    say('ready', room);
    waiting.push(...d.jobs);
    return take();
  };
  const finish = async (job: Job, change: Partial<RunResult> = {}): Promise<void> => {
    const results = [resultOf(job, change)];
    const agentId = '9b2f5a3c-6a4f-4d0b-8f0e-5b1f2c3d4e5f';
    const body = { agentId, sentAt: new Date().toISOString(), clockOffsetMs: 0, results };
    const response = await post(`${url}/agent/v1/results`, key, body);
    if (response.status !== 200) throw new Error(`results: ${response.status} ${await response.text()}`);
  };
  return {
    take,
    finish,
    pass: async (count) => {
      for (let i = 0; i < count; i++) await finish(await take());
    },
    closed: agent.closed,
    leave: () => agent.vanish(),
  };
}

const CALM: RunResult['flags'] = {
  hasFailures: false,
  hasErrors: false,
  isDegraded: false,
  isCancelled: false,
  overMaxResponseTime: false,
};

/** Members of a result that failed for one reason. */
export function failedBy(code: string, message: string, network = true): Partial<RunResult> {
  return {
    flags: { ...CALM, hasFailures: true },
    statusCode: null,
    responseTimeMs: null,
    errors: [{ code, message, network }],
  };
}

export const degraded: Partial<RunResult> = { flags: { ...CALM, isDegraded: true } };
export const cancelled: Partial<RunResult> = { flags: { ...CALM, isCancelled: true } };
