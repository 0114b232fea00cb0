import {
  readAgentSettings,
  startAgent,
  type AgentOptions,
  type RunningAgent,
} from '../../src/agent/index.ts';
import type { Job } from '../../src/contract/index.ts';
import { newId } from '../../src/kit/ids.ts';
import { createLog } from '../../src/kit/log.ts';
import type { FakeService } from './fake-service.ts';
import { temporaryFolder } from './temporary-folder.ts';

export const STAND_IN_PROBE = new URL('./stand-in-probe.ts', import.meta.url);

export { temporaryFolder };

export interface TestAgent extends RunningAgent, AsyncDisposable {
  /** GET on the health port. */
  health(path: string): Promise<{ status: number; text: string }>;
}

/** An agent in this process, in front of a service, with stand-in probes; ended with the test. */
export async function startTestAgent(
  service: Pick<FakeService, 'url' | 'key'>,
  env: Record<string, string> = {},
  options: Partial<AgentOptions> = {},
): Promise<TestAgent> {
  const folder = temporaryFolder();
  const { values } = readAgentSettings({
    API_KEY: service.key,
    AGENT_SERVICE_URL: service.url,
    AGENT_HEALTH_PORT: '0',
    AGENT_HEALTH_HOST: '127.0.0.1',
    AGENT_DATA_DIR: folder.path,
    JOB_CONCURRENCY: '8',
    ...env,
  });
  const agent = await startAgent(values, {
    log: createLog({ level: 'silent', format: 'json', name: 'agent' }),
    version: '0.1.0',
    probeEntry: STAND_IN_PROBE,
    ...options,
  });
  return {
    ...agent,
    health: async (path) => {
      const response = await fetch(`http://127.0.0.1:${agent.healthPort}${path}`);
      return { status: response.status, text: await response.text() };
    },
    [Symbol.asyncDispose]: async () => {
      agent.kill();
      await agent.done.catch(() => {});
      folder[Symbol.dispose]();
    },
  };
}

let nextRunId = 1;

/** A job of the stand-in probe; `spec` as described there. */
export function standInJob(spec: Record<string, unknown> = {}, more: Partial<Job> = {}): Job {
  return {
    runId: nextRunId++,
    token: 1,
    attempt: 0,
    sequenceId: newId(),
    sessionId: newId(),
    lane: 0,
    checkId: newId(),
    checkType: 'URL',
    name: 'stand-in',
    location: 'here',
    proxyUrl: null,
    scheduledAt: new Date().toISOString(),
    timeoutMs: 30_000,
    spec,
    ...more,
  };
}
