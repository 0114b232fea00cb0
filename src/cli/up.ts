import { once } from 'node:events';
import { hostname } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { newId, newSecret } from '../kit/ids.ts';
import { ExitCode } from '../kit/errors.ts';
import { createLog } from '../kit/log.ts';
import { integer, readSettings, setting, type Environment } from '../kit/settings.ts';
import { startService, type RunningService } from '../service/index.ts';
import { serviceSettings, type ServiceSettings } from '../service/settings.ts';
import { agentSettings } from '../agent/settings.ts';
import { agentEnvironment, startAgentProcess, type AgentProcess } from './agent-process.ts';
import type { Invocation } from './command.ts';
import { makeDataDir, readCredentials, writeCredentials, type Credentials } from './credentials.ts';
import { startExamples } from './examples.ts';
import { installFirstRuntime } from './first-runtime.ts';
import { createLocation } from './location.ts';
import { assertPortFree } from './ports.ts';
import { restClient } from './rest-client.ts';
import { resultLine } from './result-line.ts';

const LOOPBACK = '127.0.0.1';
/** Quiet and readable, unless the user wants it otherwise: the result lines are the log of `up`. */
const LOG_DEFAULTS = { LOG_LEVEL: 'warn', LOG_FORMAT: 'pretty' };

interface Plan {
  dataDir: string;
  port: number;
  healthPort: number;
  examples: boolean;
  /** Whether a first runtime may be installed. */
  runtime: boolean;
  /** The environment with the defaults of `up`. */
  env: Environment;
}

/** `vedette up`: everything on this machine, for trying out and for small needs. */
export async function up({ options, env, shutdown }: Invocation): Promise<ExitCode> {
  const plan = readPlan(options, env);
  await makeDataDir(plan.dataDir);
  await assertPortFree(LOOPBACK, plan.port, '--port');
  await assertPortFree(LOOPBACK, plan.healthPort, '--health-port');
  const { credentials, isFirstStart } = await prepareCredentials(plan);

  // Ended in reverse order: the agent gives back what it holds while the service still listens.
  await using parts = new AsyncDisposableStack();
  const settings = serviceSettingsOf(plan, credentials);
  const log = createLog({ level: settings.logLevel, format: settings.logFormat, name: 'service' });
  const service = await startService(settings, {
    log,
    onResult: (result) => console.log(resultLine(result)),
  });
  parts.defer(() => service.stop());

  const rest = restClient(credentials);
  const privateLocation = credentials.privateLocation ?? (await createLocation(rest, hostname()));
  const complete = { ...credentials, privateLocation };
  await writeCredentials(plan.dataDir, complete);
  const demo = await startExamples(plan.dataDir, rest, privateLocation.slugName, plan.examples);
  parts.defer(async () => demo?.close());
  if (shutdown.drain.aborted) return ExitCode.done;

  const agent = startAgentProcess(agentEnvironmentOf(plan, complete));
  parts.defer(() => agent.stop(shutdown.kill));
  console.log(greeting(plan, complete, isFirstStart));
  if (plan.runtime) parts.defer(installFirstRuntime(env));
  // Awaited here, or the parts would end at once.
  return await untilEnd(agent, service, shutdown.drain);
}

function readPlan(options: Invocation['options'], env: Environment): Plan {
  const { values } = readSettings(
    {
      port: setting('--port', integer(1, 65_535).default(3000), { meaning: 'Port of the service.' }),
      healthPort: setting('--health-port', agentSettings.healthPort.schema, {
        meaning: 'Port of the agent.',
      }),
    },
    {
      '--port': textOf(options['port']),
      '--health-port': textOf(options['health-port']) ?? env['AGENT_HEALTH_PORT'],
    },
  );
  return {
    ...values,
    dataDir: resolve(textOf(options['data-dir']) ?? '.vedette'),
    examples: options['no-examples'] !== true,
    runtime: options['no-runtime'] !== true,
    env: { ...LOG_DEFAULTS, ...env },
  };
}

const textOf = (value: Invocation['options'][string]): string | undefined =>
  typeof value === 'string' ? value : undefined;

/** Kept before the store learns of the key, so that a first start that is cut off can be repeated. */
async function prepareCredentials({ dataDir, port }: Plan): Promise<{
  credentials: Credentials;
  isFirstStart: boolean;
}> {
  const before = await readCredentials(dataDir);
  const serviceUrl = `http://${LOOPBACK}:${port}`;
  const credentials = { apiKey: newSecret('vk'), accountId: newId(), ...before, serviceUrl };
  if (before === undefined) await writeCredentials(dataDir, credentials);
  return { credentials, isFirstStart: before?.privateLocation === undefined };
}

/** The embedded store on loopback, whatever the environment says about a database or an address. */
function serviceSettingsOf({ dataDir, port, env }: Plan, credentials: Credentials): ServiceSettings {
  return readSettings(serviceSettings, {
    ...env,
    DATABASE_URL: undefined,
    DATABASE_URL_FILE: undefined,
    SERVICE_DATA_DIR: dataDir,
    SERVICE_HOST: LOOPBACK,
    SERVICE_PORT: String(port),
    PUBLIC_URL: credentials.serviceUrl,
    BOOTSTRAP_ACCOUNT_ID: credentials.accountId,
    BOOTSTRAP_API_KEY: credentials.apiKey,
  }).values;
}

function agentEnvironmentOf(
  { dataDir, healthPort, env }: Plan,
  { serviceUrl, privateLocation }: Required<Credentials>,
): Environment {
  return agentEnvironment(env, {
    API_KEY: privateLocation.key,
    AGENT_SERVICE_URL: serviceUrl,
    AGENT_DATA_DIR: join(dataDir, 'agent'),
    AGENT_HEALTH_HOST: LOOPBACK,
    AGENT_HEALTH_PORT: String(healthPort),
    // A proxy of this machine is no way to this machine.
    NO_PROXY: [env['NO_PROXY'] ?? env['no_proxy'], LOOPBACK].filter(Boolean).join(','),
  });
}

function greeting(plan: Plan, credentials: Required<Credentials>, isFirstStart: boolean): string {
  const file = join(plan.dataDir, 'credentials.json');
  const key = isFirstStart ? credentials.apiKey : `$(node -p 'require("${file}").apiKey')`;
  return `
Vedette is running; Ctrl-C ends it.

  Service           ${credentials.serviceUrl}
  Account           ${credentials.accountId}
  API key           ${isFirstStart ? `${credentials.apiKey}  (shown this once)` : `in ${shownPath(file)}`}
  Private location  ${credentials.privateLocation.slugName}
  Agent health      http://${LOOPBACK}:${plan.healthPort}/-/readiness
  Data              ${shownPath(plan.dataDir)}

Try:
  curl -H "Authorization: Bearer ${key}" ${credentials.serviceUrl}/v1/checks

Results:`;
}

/** From the working folder where that is shorter. */
function shownPath(path: string): string {
  const fromHere = relative(process.cwd(), path);
  return fromHere === '' || fromHere.startsWith('..') ? path : fromHere;
}

/** Waits for a signal, or for the end of a part that should not have ended. */
async function untilEnd(agent: AgentProcess, service: RunningService, drain: AbortSignal): Promise<ExitCode> {
  const asked = drain.aborted ? Promise.resolve() : once(drain, 'abort');
  const first = await Promise.race([
    asked.then(() => 'asked' as const),
    // Rejects with the service's fault, if it has one.
    service.done.then(() => ExitCode.internal),
    agent.ended,
  ]);
  if (first === 'asked') {
    console.log('\nEnding: running checks finish first; Ctrl-C again gives them up.');
    return ExitCode.done;
  }
  console.error('vedette: the agent or the service ended by itself, so everything ends');
  return (
    Object.values(ExitCode).find((code) => code === first && code !== ExitCode.done) ?? ExitCode.internal
  );
}
