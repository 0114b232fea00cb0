import { z } from 'zod';
import { parsePolicy } from '../checks/target-policy/index.ts';
import { messageOf } from '../kit/errors.ts';
import { logSettings } from '../kit/log.ts';
import {
  httpUrl,
  integer,
  readSettings,
  setting,
  switchValue,
  unknownNames,
  word,
  type Environment,
  type ValuesOf,
} from '../kit/settings.ts';

const optional = <T>(schema: z.ZodType<T>): z.ZodType<T | undefined> => schema.optional();
const seconds = (min: number, max: number, normal: number): z.ZodType<number> =>
  integer(min, max)
    .default(normal)
    .transform((n) => n * 1000);

const megabytes = (min: number, max: number, normal: number): z.ZodType<number> =>
  integer(min, max)
    .default(normal)
    .transform((n) => n * 1_000_000);

/** Entries of a target policy; the first that means nothing is named. */
const targets = (name: 'BLOCKED_TARGETS' | 'ALLOWED_TARGETS'): z.ZodType<string> =>
  z
    .string()
    .default('')
    .superRefine((text, ctx) => {
      try {
        parsePolicy(name === 'BLOCKED_TARGETS' ? text : '', name === 'ALLOWED_TARGETS' ? text : '');
      } catch (error) {
        ctx.addIssue({ code: 'custom', message: messageOf(error).replace(`${name}: `, '') });
      }
    });

/** The agent's settings: one list for parsing and for the README. */
export const agentSettings = {
  apiKey: setting(
    'API_KEY',
    z
      .string()
      .trim()
      .regex(/^pl_[A-Za-z0-9_-]{8,}$/, 'a private location key is allowed: it starts with pl_'),
    { default: 'required', meaning: 'Key of the private location that this agent serves.', secret: true },
  ),
  serviceUrl: setting('AGENT_SERVICE_URL', httpUrl(), {
    default: 'required',
    meaning: 'Base address of the service; `vedette up` sets it.',
  }),
  jobConcurrency: setting('JOB_CONCURRENCY', optional(integer(1, 10_000)), {
    default: 'by CPUs and memory',
    meaning: 'Most runs at once.',
  }),
  ...logSettings,
  healthPort: setting('AGENT_HEALTH_PORT', integer(0, 65_535).default(8081), {
    default: '8081',
    meaning:
      'Port of `/-/readiness`, `/-/liveness`, `/health` and `/metrics`; 0 lets the system choose a free one.',
  }),
  healthHost: setting('AGENT_HEALTH_HOST', z.string().trim().min(1).default('0.0.0.0'), {
    default: '0.0.0.0',
    meaning: 'Address that the health port listens on.',
  }),
  dataDir: setting('AGENT_DATA_DIR', optional(z.string().min(1)), {
    default: '/var/lib/vedette',
    meaning:
      'Folder of the spool. Where the default cannot be written a temporary folder is used, with a warning.',
  }),
  drainTimeoutMs: setting('AGENT_DRAIN_TIMEOUT', seconds(0, 86_400, 600), {
    default: '600',
    meaning: 'Seconds that running checks get to finish after a stop signal.',
  }),
  httpsProxy: setting('HTTPS_PROXY', optional(httpUrl()), {
    meaning: 'Proxy for an https:// service address. Targets use the proxy of their location.',
    // It may hold credentials.
    secret: true,
  }),
  httpProxy: setting('HTTP_PROXY', optional(httpUrl()), {
    meaning: 'Proxy for an http:// service address.',
    secret: true,
  }),
  noProxy: setting('NO_PROXY', z.string().default(''), {
    meaning:
      'Hosts, .domains, CIDRs and host:port that are reached without a proxy, that of the location included; * for all.',
  }),
  extraCaCerts: setting('NODE_EXTRA_CA_CERTS', optional(z.string().min(1)), {
    meaning:
      'PEM file of further certificate authorities: for the service, for targets of every type, browsers included, and for npm. Read again when it changes.',
  }),
  useOsResolver: setting('USE_OS_DNS_RESOLVER', switchValue().default(false), {
    default: 'off',
    meaning: "Resolve targets' names through the operating system.",
  }),
  blockedTargets: setting('BLOCKED_TARGETS', targets('BLOCKED_TARGETS'), {
    meaning:
      'Targets that no check may reach: CIDRs, addresses, host names and globs such as `*.internal.example`, each with `:port` if wanted. The metadata addresses of clouds are blocked anyway.',
  }),
  allowedTargets: setting('ALLOWED_TARGETS', targets('ALLOWED_TARGETS'), {
    meaning:
      'With it checks reach only these targets, in the same form, and of them none that BLOCKED_TARGETS has. An entry for a metadata address opens it.',
  }),
  scriptEgress: setting('SCRIPT_EGRESS', word('proxy', 'open').default('proxy'), {
    default: 'proxy',
    meaning:
      'proxy: user code and browsers reach targets through the agent, by TCP only, and BLOCKED_TARGETS is enforced; open: directly, with no policy but that of the network.',
  }),
  dependencyCache: setting('DEPENDENCY_CACHE', word('local', 'off').default('local'), {
    default: 'local',
    meaning:
      'Dependencies of Playwright suites: local keeps them in the data folder for the next run; off installs them each time.',
  }),
  dependencyCacheBytes: setting('DEPENDENCY_CACHE_SIZE', megabytes(100, 1_000_000, 5_000), {
    default: '5000',
    meaning: 'Most MB of kept dependencies; the longest unused make room.',
  }),
  bundleCacheBytes: setting('BUNDLE_CACHE_SIZE', megabytes(0, 1_000_000, 1_000), {
    default: '1000',
    meaning: 'Most MB of archives of Playwright suites that are kept.',
  }),
  installScripts: setting('SUITE_INSTALL_SCRIPTS', switchValue().default(true), {
    default: 'on',
    meaning: 'off: packages of Playwright suites are installed without running their scripts.',
  }),
  sandbox: setting('SANDBOX', word('best-effort', 'require').default('best-effort'), {
    default: 'best-effort',
    meaning: 'require refuses to start when a wall around probes and user code is missing.',
  }),
} as const;

const OWN_PREFIXES = ['AGENT_'];
const OF_PACKAGES = /^(npm_config_\w.*|playwright_(\w+_)?download_(host|connection_timeout))$/i;

export type AgentSettings = ValuesOf<typeof agentSettings> & {
  /** Settings of npm and of Playwright's download, under their own names: for the installations of suites. */
  packageVariables: Record<string, string>;
};

/**
 * Reads the agent's settings. The lower-case names of the proxy settings count too, as for most programs.
 *
 * @throws FatalError with exit code 2 and one line
 */
export function readAgentSettings(env: Environment): { values: AgentSettings; warnings: string[] } {
  const { values, warnings } = readSettings(agentSettings, withLowerCase(env), OWN_PREFIXES);
  return { values: { ...values, packageVariables: packageVariablesOf(env) }, warnings };
}

/** As `readAgentSettings`, but with every problem instead of the first, and with the values that are good. */
export function tryAgentSettings(env: Environment): {
  values: Partial<AgentSettings>;
  problems: string[];
  warnings: string[];
} {
  const names = withLowerCase(env);
  const values: Partial<AgentSettings> = { packageVariables: packageVariablesOf(env) };
  const problems: string[] = [];
  for (const [key, each] of Object.entries(agentSettings)) {
    try {
      Object.assign(values, readSettings({ [key]: each }, names).values);
    } catch (error) {
      problems.push(messageOf(error));
    }
  }
  return { values, problems, warnings: unknownNames(agentSettings, names, OWN_PREFIXES) };
}

function withLowerCase(env: Environment): Environment {
  const proxies = ['HTTPS_PROXY', 'HTTP_PROXY', 'NO_PROXY'].map((name) => [
    name,
    env[name] || env[name.toLowerCase()],
  ]);
  return { ...env, ...Object.fromEntries(proxies) };
}

function packageVariablesOf(env: Environment): Record<string, string> {
  const found = Object.entries(env).filter(
    (entry): entry is [string, string] => OF_PACKAGES.test(entry[0]) && Boolean(entry[1]),
  );
  return Object.fromEntries(found);
}
