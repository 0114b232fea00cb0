import { setTimeout as delay } from 'node:timers/promises';
import { GenericContainer, Wait, type StartedTestContainer } from 'testcontainers';
import { newId } from '../../src/kit/ids.ts';
import { docker } from './base.ts';

// Its helper that tidies up after it is an image of a registry; the tests tidy up themselves.
process.env['TESTCONTAINERS_RYUK_DISABLED'] = 'true';

const START_MS = 60_000;

/** As `docker run --read-only --cap-drop ALL --security-opt no-new-privileges --memory 2g --pids-limit 512`. */
class Restricted extends GenericContainer {
  constructor(image: string, volume: string, files: Readonly<Record<string, string>>) {
    super(image);
    this.withDroppedCapabilities('ALL');
    this.withSecurityOpt('no-new-privileges');
    this.withResourcesQuota({ memory: 2 });
    // The one place that can be written.
    const read = Object.entries(files).map(([target, source]) => ({ source, target, mode: 'ro' as const }));
    this.withBindMounts([{ source: volume, target: '/var/lib/vedette' }, ...read]);
    Object.assign(this.hostConfig, { ReadonlyRootfs: true, PidsLimit: 512 });
  }
}

export interface Container extends AsyncDisposable {
  readonly id: string;
  /** From the request to create the container to its first readiness. */
  readonly readyMs: number;
  /** Its port, as it is published. */
  readonly url: string;
  /** GET there. */
  get(path: string): Promise<{ status: number; text: string }>;
  /** What it wrote, also when it is gone. */
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

export interface Start {
  image: string;
  /** That tells by `/-/readiness` when it is ready. */
  port: number;
  env: Record<string, string>;
  user?: string;
  /** Its data folder; without, one that goes with it. */
  volume?: string;
  /** Files of this machine that it reads, by where it sees them. */
  files?: Readonly<Record<string, string>>;
}

/** Starts an image in the tightest container there is and waits until it is ready. */
export async function startContainer({
  image,
  port,
  env,
  user = '1000',
  volume,
  files = {},
}: Start): Promise<Container> {
  const own = volume === undefined ? newVolume() : undefined;
  const begun = performance.now();
  const container = await new Restricted(image, volume ?? own!.name, files)
    .withUser(user)
    .withEnvironment(env)
    .withExposedPorts(port)
    .withWaitStrategy(Wait.forHttp('/-/readiness', port))
    .withStartupTimeout(START_MS)
    .start();
  return handle(container, port, performance.now() - begun, own);
}

function handle(
  container: StartedTestContainer,
  port: number,
  readyMs: number,
  ownVolume: Disposable | undefined,
): Container {
  const id = container.getId();
  const url = `http://${container.getHost()}:${container.getMappedPort(port)}`;
  let lastWords: string | undefined;
  return {
    id,
    readyMs,
    url,
    get: async (path) => {
      const response = await fetch(`${url}${path}`, { headers: { connection: 'close' } });
      return { status: response.status, text: await response.text() };
    },
    logs: () => lastWords ?? docker('logs', id).stdout,
    kill: () => void docker('kill', '--signal', 'KILL', id),
    stop: async (withinMs) => {
      docker('kill', '--signal', 'TERM', id);
      return ended(id, withinMs);
    },
    [Symbol.asyncDispose]: async () => {
      lastWords = docker('logs', id).stdout;
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
