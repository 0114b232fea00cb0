import { setTimeout as delay } from 'node:timers/promises';
import { GenericContainer, Wait, type StartedTestContainer } from 'testcontainers';
import { newId } from '../../src/kit/ids.ts';
import { docker } from './base.ts';

// Its helper that tidies up after it is an image of a registry; the tests tidy up themselves.
process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';

const HEALTH_PORT = 8081;
const START_MS = 60_000;

/** As `docker run --read-only --cap-drop ALL --security-opt no-new-privileges --memory 2g --pids-limit 512`. */
class Restricted extends GenericContainer {
  constructor(image: string, volume: string) {
    super(image);
    this.withDroppedCapabilities('ALL');
    this.withSecurityOpt('no-new-privileges');
    this.withResourcesQuota({ memory: 2 });
    // The one place that can be written.
    this.withBindMounts([{ source: volume, target: '/var/lib/vedette' }]);
    Object.assign(this.hostConfig, { ReadonlyRootfs: true, PidsLimit: 512 });
  }
}

export interface AgentContainer extends AsyncDisposable {
  readonly id: string;
  /** From the request to create the container to its first readiness. */
  readonly readyMs: number;
  /** GET on the health port, as it is published. */
  health(path: string): Promise<{ status: number; text: string }>;
  logs(): string;
  /** SIGKILL to the whole container. */
  kill(): void;
  /** SIGTERM. @returns its exit code */
  stop(withinMs: number): Promise<number>;
}

/** A volume that is gone after the test, for data that outlive a container. */
export function newVolume(): { name: string } & Disposable {
  const name = `vedette-test-${newId()}`;
  docker('volume', 'create', name);
  return { name, [Symbol.dispose]: () => void docker('volume', 'rm', '--force', name) };
}

export interface AgentStart {
  image: string;
  serviceUrl: string;
  key: string;
  user?: string;
  env?: Record<string, string>;
  /** Its data folder; without, one that goes with it. */
  volume?: string;
}

/** Starts an agent in the tightest container there is and waits until it is ready. */
export async function startAgentContainer(start: AgentStart): Promise<AgentContainer> {
  const own = start.volume === undefined ? newVolume() : undefined;
  const begun = performance.now();
  const container = await new Restricted(start.image, start.volume ?? own!.name)
    .withUser(start.user ?? '1000')
    .withEnvironment({ API_KEY: start.key, AGENT_SERVICE_URL: start.serviceUrl, ...start.env })
    .withExposedPorts(HEALTH_PORT)
    .withWaitStrategy(Wait.forHttp('/-/readiness', HEALTH_PORT))
    .withStartupTimeout(START_MS)
    .start();
  return handle(container, performance.now() - begun, own);
}

function handle(
  container: StartedTestContainer,
  readyMs: number,
  ownVolume: Disposable | undefined,
): AgentContainer {
  const id = container.getId();
  const health = `http://${container.getHost()}:${container.getMappedPort(HEALTH_PORT)}`;
  return {
    id,
    readyMs,
    health: async (path) => {
      const response = await fetch(`${health}${path}`, { headers: { connection: 'close' } });
      return { status: response.status, text: await response.text() };
    },
    logs: () => docker('logs', id).stdout,
    kill: () => void docker('kill', '--signal', 'KILL', id),
    stop: async (withinMs) => {
      docker('kill', '--signal', 'TERM', id);
      return ended(id, withinMs);
    },
    [Symbol.asyncDispose]: async () => {
      docker('rm', '--force', '--volumes', id);
      ownVolume?.[Symbol.dispose]();
    },
  };
}

/** @returns its exit code. @throws Error when it still runs then */
async function ended(id: string, withinMs: number): Promise<number> {
  for (const end = performance.now() + withinMs; performance.now() < end; await delay(50)) {
    const [running, code] = docker('inspect', '--format', '{{.State.Running}} {{.State.ExitCode}}', id)
      .stdout.trim()
      .split(' ');
    if (running === 'false') return Number(code);
  }
  throw new Error(`the container still runs after ${withinMs} ms`);
}
