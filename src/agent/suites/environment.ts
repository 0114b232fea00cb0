import { delimiter } from 'node:path';
import type { SuiteJob } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import type { OpenGate } from '../egress/index.ts';
import { PRELOAD } from './process.ts';

/** What every command of a suite has. */
export interface Surroundings {
  /** The job's folder. */
  folder: string;
  gate: OpenGate | null;
  /** Folders for the PATH, the first first. */
  path: readonly string[];
  extraCaCerts: string | undefined;
}

type Variables = Record<string, string>;
type SuiteVariables = readonly { key: string; value: string }[] | null | undefined;

const SYSTEM_PATH = ['/usr/local/bin', '/usr/bin', '/bin'];
/** Ours whatever a check says: without them its commands would not find their way. */
const OWN = new Set(['PATH', 'HOME', 'TMPDIR', 'NODE_OPTIONS', 'PLAYWRIGHT_BROWSERS_PATH']);

/** How the machine's owner reaches registries; the small letters are for programs that know no others. */
export interface PackageNetwork {
  httpsProxy: string | undefined;
  httpProxy: string | undefined;
  noProxy: string;
}

/** Of the commands that fetch something: registries, mirrors, proxies. */
export function networkVariables({ httpsProxy, httpProxy, noProxy }: PackageNetwork): Variables {
  const values = { HTTPS_PROXY: httpsProxy, HTTP_PROXY: httpProxy, NO_PROXY: noProxy || undefined };
  const known = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(
    known.flatMap(([name, value]) => [
      [name, value],
      [name.toLowerCase(), value],
    ]),
  );
}

/** For programs that are none of Node's: they know no other way to the gate, whatever it leads through. */
export function gateVariables({ port }: OpenGate): Variables {
  const address = `http://127.0.0.1:${port}`;
  return { HTTP_PROXY: address, HTTPS_PROXY: address, http_proxy: address, https_proxy: address };
}

/** Of our own process, which starts the others. */
export function processVariables(extraCaCerts: string | undefined): Variables {
  return {
    TZ: 'UTC',
    LANG: 'C.UTF-8',
    PATH: SYSTEM_PATH.join(delimiter),
    NODE_USE_SYSTEM_CA: '1',
    ...(extraCaCerts === undefined ? {} : { NODE_EXTRA_CA_CERTS: extraCaCerts }),
  };
}

/** For programs of Node. */
export const throughGate = ({ port }: OpenGate): string => `--import=${PRELOAD.href}?port=${port}`;

/** What a project's commands see, beside what is of one stage alone. */
export function variablesOf(
  job: Job,
  suite: SuiteJob & { environmentVariables?: SuiteVariables },
): Variables {
  const builtIn: Record<string, string | undefined> = {
    SERVICE: '1',
    SERVICE_RUN_SOURCE: job.runSource,
    SERVICE_CHECK_ID: job.checkId,
    SERVICE_REGION: job.location,
    ACCOUNT_ID: job.accountId,
    CHECK_NAME: job.name,
    CI: suite.isTestSession ? '1' : undefined,
  };
  const known = Object.entries(builtIn).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const own = (suite.environmentVariables ?? []).map(({ key, value }) => [key, value]);
  return { ...Object.fromEntries(known), ...Object.fromEntries(own) };
}

/** @param more of this stage; what the check says wins over it */
export function commandEnvironment(
  { folder, gate, path, extraCaCerts }: Surroundings,
  variables: Variables,
  more: Variables,
): Variables {
  const free = Object.fromEntries(Object.entries(variables).filter(([name]) => !OWN.has(name)));
  const preload = gate === null ? [] : [throughGate(gate)];
  const options = [...preload, variables['NODE_OPTIONS'] ?? ''].join(' ').trim();
  const browsers = more['PLAYWRIGHT_BROWSERS_PATH'];
  return {
    ...processVariables(extraCaCerts),
    ...more,
    ...free,
    PATH: [...path, ...SYSTEM_PATH].join(delimiter),
    HOME: folder,
    TMPDIR: `${folder}/tmp`,
    ...(options === '' ? {} : { NODE_OPTIONS: options }),
    ...(browsers === undefined ? {} : { PLAYWRIGHT_BROWSERS_PATH: browsers }),
    npm_config_update_notifier: 'false',
    // The agent brings browsers, and knows what they need.
    PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD: '1',
    PLAYWRIGHT_SKIP_VALIDATE_HOST_REQUIREMENTS: '1',
  };
}
