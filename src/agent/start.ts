import { join } from 'node:path';
import type { Log } from '../kit/log.ts';
import type { Agent, AgentParts } from './agent.ts';
import { planLanes, readMachine } from './admission/index.ts';
import { Authorities } from './authorities/index.ts';
import type { LinkTiming } from './connection/index.ts';
import { chooseDataDir } from './data-dir.ts';
import type { HealthServer } from './health/index.ts';
import { ProbePool } from './probes/index.ts';
import type { Runtime } from './runtimes/index.ts';
import { requireWalls, sandboxReport, sweepMarkers, type JobLimits } from './sandbox/index.ts';
import type { AgentSettings } from './settings.ts';

export interface AgentOptions {
  log: Log;
  version: string;
  /** Takes a number of runs and ends; goes on until it is told to end when absent. */
  once?: Once;
  /** For tests: other programs for the processes, and shorter times of the wire. */
  probeEntry?: URL;
  scriptEntry?: URL;
  findRuntimes?: () => readonly Runtime[];
  runtimesEveryMs?: number;
  suiteLimits?: Partial<JobLimits>;
  linkTiming?: LinkTiming;
  pollForMs?: number;
  authoritiesEveryMs?: number;
}

export interface Once {
  /** Most runs that it takes. */
  runs: number;
  /** It ends earlier when none came for this long, ms; null: it waits. */
  waitMs: number | null;
}

export interface RunningAgent {
  healthPort: number;
  agentId: string;
  /** Resolves when the agent is first ready to take work; never rejects. */
  ready: Promise<void>;
  /** Resolves when everything has ended. Rejects with what ended the agent, a FatalError for its user. */
  done: Promise<void>;
  /** Takes no more work, lets running checks finish, sends what is left and ends. Resolves with `done`. */
  drain(): Promise<void>;
  /** Gives running checks back now and ends. */
  kill(): void;
}

/**
 * Starts an agent in this process. The probe processes start before the rest of the agent is even
 * loaded: on two cores that halves the time to the first run.
 *
 * @throws FatalError when it cannot start: settings that do not work here, a data folder in use
 */
export async function startAgent(settings: AgentSettings, options: AgentOptions): Promise<RunningAgent> {
  const { log, probeEntry } = options;
  requireWalls(settings.sandbox, log);
  const swept = await sweepMarkers();
  if (swept > 0) log.warn({ jobs: swept }, 'ended what jobs of an agent that is gone had left running');
  const authorities = new Authorities(settings.extraCaCerts);
  const dataDir = chooseDataDir(settings.dataDir, log);
  authorities.keepIn(join(dataDir, 'authorities'));
  const plan = planLanes(readMachine(), settings.jobConcurrency);
  const pool = new ProbePool({
    size: plan.probes,
    perProbe: plan.perProbe,
    heapMb: plan.heapMb,
    setup: {
      useOsResolver: settings.useOsResolver,
      policy: { blocked: settings.blockedTargets, allowed: settings.allowedTargets },
      noProxy: settings.noProxy,
    },
    extraCaCerts: authorities.file,
    log,
    ...(probeEntry === undefined ? {} : { entry: probeEntry }),
  });
  pool.start();
  try {
    return await startRest(settings, options, { plan, pool, authorities, dataDir });
  } catch (error) {
    await pool.stop();
    throw error;
  }
}

async function startRest(
  settings: AgentSettings,
  options: AgentOptions,
  parts: Omit<AgentParts, 'spool'>,
): Promise<RunningAgent> {
  const { log, version } = options;
  const [agentRoom, { openSpool }, { startHealthServer }] = await Promise.all([
    import('./agent.ts'),
    import('./spool/index.ts'),
    import('./health/index.ts'),
  ]);
  // Reading them takes 80 ms, which an agent without TLS of its own need not wait for.
  if (needsTls(settings)) parts.authorities.trustHere();
  const spool = openSpool(parts.dataDir, log);
  const agent = new agentRoom.Agent(settings, options, { ...parts, spool });
  const health = await startHealthServer({
    host: settings.healthHost,
    port: settings.healthPort,
    status: () => agent.status(),
    metrics: () => agent.metrics.text(),
  }).catch((error: unknown) => {
    spool.close();
    throw error;
  });
  agent.protectHealthPort(health.port);
  const done = untilEnd(agent, health);
  done.catch(() => {});
  const { state: sandbox, missing } = sandboxReport();
  log.info({ version, agentId: spool.agentId, healthPort: health.port, sandbox, missing }, 'agent started');
  return {
    healthPort: health.port,
    agentId: spool.agentId,
    ready: agent.ready,
    done,
    drain: () => {
      agent.drain();
      return done;
    },
    kill: () => agent.kill(),
  };
}

const needsTls = ({ serviceUrl, httpProxy, httpsProxy }: AgentSettings): boolean =>
  [serviceUrl, httpProxy, httpsProxy].some((url) => url?.startsWith('https:') === true);

async function untilEnd(agent: Agent, health: HealthServer): Promise<void> {
  try {
    await agent.run();
  } finally {
    await health.close();
  }
}
