import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath, waitUntil } from './programs.ts';
import { ACCOUNT_ID, API_KEY, restOf, type Rest } from './rest.ts';
import { freePort } from './targets/ports.ts';

const MAIN = new URL('../../src/cli/main.ts', import.meta.url).pathname;

/** A `vedette` command that runs until it is stopped or killed. */
export interface VedetteProcess extends AsyncDisposable {
  readonly child: ChildProcess;
  /** Everything it wrote so far, for messages of failed tests. */
  output(): string;
  /** Its exit code; null when a signal ended it. */
  readonly exited: Promise<number | null>;
  /** Asks it to stop. @returns its exit code */
  stop(): Promise<number | null>;
  /** SIGKILL: no last words. */
  kill(): Promise<void>;
}

type Environment = Readonly<Record<string, string>>;

/** Starts `vedette <args>`. `within` runs it elsewhere, as in `['ip', 'netns', 'exec', 'x']`. */
export function startVedette(
  args: readonly string[],
  env: Environment,
  { within = [], cwd }: { within?: readonly string[]; cwd?: string } = {},
): VedetteProcess {
  const [program, ...rest] = [...within, process.execPath, MAIN, ...args];
  const child = spawn(program === process.execPath ? program : programPath(program!), rest, {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(cwd !== undefined && { cwd }),
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-20_000)));
  }
  const exited = once(child, 'exit').then(([code]) => code as number | null);
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    child.kill(signal);
    return exited;
  };
  return {
    child,
    output: () => output,
    exited,
    stop: () => end('SIGTERM'),
    kill: async () => void (await end('SIGKILL')),
    [Symbol.asyncDispose]: async () => void (await end('SIGKILL')),
  };
}

async function untilReady(process: VedetteProcess, url: string): Promise<void> {
  try {
    await waitUntil(
      async () => {
        if (process.child.exitCode !== null) throw new Error(`exit code ${process.child.exitCode}`);
        return (await statusOf(url)) === 200;
      },
      60_000,
      url,
    );
  } catch (error) {
    await process.kill();
    throw new Error(`not ready: ${process.output()}`, { cause: error });
  }
}

/** Status of a GET; 0 when nobody answers. */
export async function statusOf(url: string): Promise<number> {
  try {
    const response = await fetch(url, { headers: { connection: 'close' } });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return 0;
  }
}

export interface ServiceProcess extends VedetteProcess {
  readonly port: number;
  readonly url: string;
  readonly rest: Rest;
}

/** Where a service keeps its data: a folder, or a PostgreSQL database. */
export interface Keeping {
  dataDir: string;
  databaseUrl: string | undefined;
}

/** The environment of a service on `port` whose account and key are those of `restOf`. */
export function serviceEnvironment(
  { dataDir, databaseUrl }: Keeping,
  port: number,
  more: Environment,
): Environment {
  return {
    SERVICE_HOST: '127.0.0.1',
    SERVICE_PORT: String(port),
    SERVICE_DATA_DIR: dataDir,
    ...(databaseUrl !== undefined && { DATABASE_URL: databaseUrl }),
    BOOTSTRAP_ACCOUNT_ID: ACCOUNT_ID,
    BOOTSTRAP_API_KEY: API_KEY,
    ...more,
  };
}

/** Starts a service and waits until it is ready. Give `port` to start one again in the same place. */
export async function startServiceProcess(
  keeping: Keeping,
  more: Environment,
  port?: number,
): Promise<ServiceProcess> {
  const at = port ?? (await freePort());
  const url = `http://127.0.0.1:${at}`;
  const process = startVedette(['service'], serviceEnvironment(keeping, at, more));
  await untilReady(process, `${url}/-/readiness`);
  return Object.assign(process, { port: at, url, rest: restOf(url) });
}

export interface AgentProcess extends VedetteProcess {
  /** Base address of its health port. */
  readonly healthUrl: string;
}

/** Starts an agent and waits until it is connected. Its data folder goes with it. */
export async function startAgentProcess(
  serviceUrl: string,
  key: string,
  more: Environment = {},
  options: { within?: readonly string[] } = {},
): Promise<AgentProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-agent-'));
  const healthPort = await freePort();
  const healthUrl = `http://127.0.0.1:${healthPort}`;
  const process = startVedette(
    ['agent'],
    {
      API_KEY: key,
      AGENT_SERVICE_URL: serviceUrl,
      AGENT_DATA_DIR: folder,
      AGENT_HEALTH_HOST: '127.0.0.1',
      AGENT_HEALTH_PORT: String(healthPort),
      ...more,
    },
    options,
  );
  void process.exited.then(() => rmSync(folder, { recursive: true, force: true }));
  // In another network namespace nobody here can ask it; its work shows that it is ready.
  if (options.within === undefined) await untilReady(process, `${healthUrl}/-/readiness`);
  return Object.assign(process, { healthUrl });
}
