/**
 * The service: keeps checks, starts them when they are due, hands their runs to agents and answers for
 * the results. This file alone constructs the rooms and knows the order in which they start and stop;
 * the rooms know one another by ports.ts.
 */
import { join } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { sleep } from '../kit/clock.ts';
import { codeOf, ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import type { Log } from '../kit/log.ts';
import { supervise } from '../kit/supervise.ts';
import { isOlder, VERSION } from '../kit/version.ts';
import { agentMetrics, createAgentGateway, type AgentGateway } from './agents/index.ts';
import { createJanitor, openBlobs } from './blobs/index.ts';
import { createServer, Metrics } from './http/index.ts';
import { createLoads } from './load/index.ts';
import { watchResults, type LiveResult } from './live-results.ts';
import type { ServiceContext } from './ports.ts';
import { createQueue } from './queue/index.ts';
import { createScheduler } from './scheduler/index.ts';
import { timingOf, type ServiceSettings } from './settings.ts';
import { openStore } from './store/index.ts';
import { bootstrap, type Bootstrap } from './verbs/index.ts';

export type { LiveResult } from './live-results.ts';
export type { Bootstrap } from './verbs/index.ts';

/** Answers still under way at a stop get this long, ms. */
const CLOSE_GRACE_MS = 5000;

export interface StartOptions {
  log: Log;
  /** Called for each result after it is stored. */
  onResult?: (result: LiveResult) => void;
}

export interface RunningService {
  /** Where it listens; no trailing slash. */
  url: string;
  port: number;
  /** The account and the key that the first start made; absent on later starts. */
  bootstrap?: Bootstrap;
  /**
   * Turns unready, serves on for SERVICE_DRAIN_SECONDS or until `hurry` aborts, then sends agents away,
   * lets answers under way end and closes the store.
   */
  stop(hurry?: AbortSignal): Promise<void>;
  /** Settles when the service has stopped; rejects when it stopped by its own fault. */
  done: Promise<void>;
}

/** @throws FatalError when the store or the port refuses */
export async function startService(
  settings: ServiceSettings,
  options: StartOptions,
): Promise<RunningService> {
  const { log } = options;
  warnOfLockout(settings, log);
  const store = await openStore({
    databaseUrl: settings.databaseUrl,
    dataDir: settings.dataDir,
    retentionDays: settings.rawRetentionDays,
    log,
  });
  try {
    const blobs = await openBlobs(settings.blobStore ?? `file:${join(settings.dataDir, 'blobs')}`, settings);
    const made = await bootstrap(
      { store },
      { accountId: settings.bootstrapAccountId, apiKey: settings.bootstrapApiKey },
    );
    const timing = timingOf(settings.leaseSeconds, settings.queueExpirySeconds);
    const metrics = new Metrics();
    const { rawRetentionDays: retentionDays } = settings;
    const bare = createQueue({ store, timing, log, retentionDays, losses: metrics.losses });
    const queue = options.onResult ? watchResults(bare, { store, log }, options.onResult) : bare;
    const running = await open({ store, queue, blobs, timing, log }, settings, metrics);
    return made === undefined ? running : { ...running, bootstrap: made };
  } catch (error) {
    await store.close();
    throw error;
  }
}

function warnOfLockout({ minAgentVersion }: ServiceSettings, log: Log): void {
  if (minAgentVersion === undefined || !isOlder(VERSION, minAgentVersion)) return;
  log.warn({ minAgentVersion, version: VERSION }, 'MIN_AGENT_VERSION refuses agents of this release too');
}

/** What has to be closed. */
interface Open {
  context: ServiceContext;
  gateway: AgentGateway;
  server: FastifyInstance;
  leaving: AbortController;
  stopping: AbortController;
}

/** Starts what serves others; from here on `stop` and a failing loop take the same way out. */
async function open(
  parts: Omit<ServiceContext, 'publicUrl'>,
  settings: ServiceSettings,
  metrics: Metrics,
): Promise<RunningService> {
  const leaving = new AbortController();
  const stopping = new AbortController();
  const stopLoops = new AbortController();
  let url = '';
  const context: ServiceContext = {
    ...parts,
    get publicUrl() {
      return settings.publicUrl ?? url;
    },
  };
  const loads = createLoads(context);
  metrics.watch(loads);
  const gateway = createAgentGateway(context, {
    metrics: agentMetrics(metrics.registry),
    minAgentVersion: settings.minAgentVersion,
  });
  const scheduler = createScheduler(context);
  const janitor = createJanitor(context, settings.rawRetentionDays);
  const server = createServer(context, {
    metrics,
    metricsToken: settings.metricsToken,
    rateLimitPerMinute: settings.rateLimitPerMinute,
    leaving: leaving.signal,
    stopping: stopping.signal,
  });
  gateway.mount(server);
  gateway.attach(server.server);
  const port = await listen(server, settings);
  url = `http://${shownHost(settings.host)}:${port}`;

  const loops = [context.queue, scheduler, gateway, janitor, loads].map(
    (each) => async (signal: AbortSignal) => each.loop(signal),
  );
  const done = untilStopped(supervise(loops, stopLoops.signal), {
    context,
    gateway,
    server,
    leaving,
    stopping,
  });
  // Whoever awaits `done` or `stop` hears of a failure; nobody has to.
  done.catch(() => undefined);
  context.log.info({ url, store: context.store.kind }, 'service ready');
  return {
    url,
    port,
    done,
    stop: async (hurry) => {
      leaving.abort();
      const enough = AbortSignal.any([stopping.signal, ...(hurry === undefined ? [] : [hurry])]);
      await sleep(settings.drainSeconds * 1000, enough).catch(() => undefined);
      stopping.abort();
      stopLoops.abort();
      await done;
    },
  };
}

/** Runs the loops; when they have ended, for whatever reason, closes everything in order. */
async function untilStopped(
  loops: Promise<void>,
  { context, gateway, server, leaving, stopping }: Open,
): Promise<void> {
  try {
    await loops;
  } finally {
    leaving.abort();
    stopping.abort();
    await gateway.goAway();
    await close(server);
    await context.store.close();
    context.log.info('service stopped');
  }
}

async function listen(server: FastifyInstance, { host, port }: ServiceSettings): Promise<number> {
  try {
    await server.listen({ host, port });
  } catch (error) {
    await server.close();
    const why = codeOf(error) === 'EADDRINUSE' ? 'another program listens there' : messageOf(error);
    throw new FatalError(ExitCode.usage, `SERVICE_PORT=${port} on ${host}: ${why}`, { cause: error });
  }
  const address = server.server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

/** An address that a client on this machine can use. */
function shownHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}

async function close(server: FastifyInstance): Promise<void> {
  const timer = setTimeout(() => server.server.closeAllConnections(), CLOSE_GRACE_MS);
  await server.close();
  clearTimeout(timer);
}
