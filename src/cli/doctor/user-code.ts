import { tmpdir } from 'node:os';
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { planLanes, readMachine } from '../../agent/admission/index.ts';
import {
  DEFAULT_RUNTIME,
  findRuntimes,
  offeredRuntimes,
  readRecord,
  runtimePaths,
} from '../../agent/runtimes/index.ts';
import { isToolInstalled, USUAL_TOOLS, type Tool } from '../../agent/suites/index.ts';
import { checkSchema, findCheckType } from '../../checks/index.ts';
import { codeOf, ExitCode, messageOf } from '../../kit/errors.ts';
import { npmEnvironment, runProgram } from '../run-program.ts';
import { runScriptCheck, type RunSettings } from '../run-script.ts';
import { failed, ok, unneeded, untried, warning, type Finding, type Hop } from './hop.ts';
import { API_SCRIPTS, BROWSER_CHECKS, SCRIPT_CHECKS } from './kinds.ts';
import type { Site } from './site.ts';

const LIST_MS = 5_000;
/** A cold start on a busy machine with one slow core. */
const SCRIPT_MS = 15_000;
const BROWSER_MS = 20_000;
const REGISTRY_MS = 10_000;
const NPM_FETCH_MS = 7_000;

const USER_CODE = [BROWSER_CHECKS, SCRIPT_CHECKS, API_SCRIPTS];

export const runtimes: Hop = {
  name: 'runtimes',
  limitMs: LIST_MS,
  look: () => {
    const installed = findRuntimes().map(({ id }) => id);
    if (installed.length > 0) {
      const shown = installed.map((id) => `${id} (Node ${readRecord(id)?.node ?? '?'})`).join(', ');
      if (installed.includes(DEFAULT_RUNTIME)) return ok(shown);
      return warning(
        `${shown}, but not ${DEFAULT_RUNTIME}, the default: checks that name no runtime run with ${installed[0]}`,
        `Install it: vedette runtime install ${DEFAULT_RUNTIME}`,
      );
    }
    if (offeredRuntimes().length === 0) {
      return warning(
        'this is an installation for uptime checks, without runtimes',
        'Use the image vedette-agent instead of vedette-agent-uptime where scripts or browsers are wanted',
        USER_CODE,
      );
    }
    return warning(
      'none is installed, so runs with scripts wait',
      'Install one: vedette runtime install',
      USER_CODE,
    );
  },
  late: () => noFolder,
};

const noFolder = failed(
  ExitCode.internal,
  'the folder of the runtimes does not answer',
  'Look at the disk of the installation',
);

/** What suites begin with where no registry answers. */
export const suiteTools: Hop = {
  name: 'suite-tools',
  limitMs: LIST_MS,
  look: () => {
    if (offeredRuntimes().length === 0) return unneeded('this installation runs no suites');
    const installed = USUAL_TOOLS.filter((tool) => isToolInstalled(tool));
    const shown = (tools: readonly Tool[]): string =>
      tools.map(({ name, version }) => `${name} ${version}`).join(', ');
    if (installed.length === USUAL_TOOLS.length) return ok(shown(installed));
    const missing = USUAL_TOOLS.filter((tool) => !installed.includes(tool));
    return warning(
      `${shown(missing)} are not installed: the first suite that needs one fetches it from the registry`,
      'Install them, where suites must do without a registry: vedette runtime install',
    );
  },
  late: () => noFolder,
};

export const scripts: Hop = {
  name: 'scripts',
  after: ['sandbox'],
  limitMs: SCRIPT_MS,
  look: (site, signal) => {
    const script = `import { expect, test } from '@playwright/test';
      test('runs', () => expect(process.version).toMatch(/^v/));`;
    return tryScript(SCRIPT_CHECKS, script, site, signal);
  },
  late: () => noScript(SCRIPT_CHECKS, `it was not done within ${SCRIPT_MS / 1000} s`),
};

/** The very browser of the runtime, behind all its walls, with a page that needs no network. */
export const browser: Hop = {
  name: 'browser',
  after: ['sandbox', 'scripts'],
  limitMs: BROWSER_MS,
  look: (site, signal) => {
    const [usual] = usualRuntime();
    const source = usual === undefined ? undefined : readRecord(usual)?.browsers.source;
    if (usual !== undefined && source === 'none') {
      return warning(
        `runtime ${usual} is installed without a browser`,
        `Install one: vedette runtime install ${usual}`,
        [BROWSER_CHECKS],
      );
    }
    const script = `import { expect, test } from '@playwright/test';
      test('opens a page', async ({ page }) => {
        await page.goto('data:text/html,<title>opened</title>');
        await expect(page).toHaveTitle('opened');
      });`;
    return tryScript(BROWSER_CHECKS, script, site, signal);
  },
  late: () => noScript(BROWSER_CHECKS, `it did not open a page within ${BROWSER_MS / 1000} s`),
};

/** The one of checks that name none. */
function usualRuntime(): string[] {
  const ids = findRuntimes().map(({ id }) => id);
  return ids.includes(DEFAULT_RUNTIME) ? [DEFAULT_RUNTIME] : ids;
}

async function tryScript(
  kind: typeof SCRIPT_CHECKS | typeof BROWSER_CHECKS,
  script: string,
  site: Site,
  signal: AbortSignal,
): Promise<Finding> {
  const settings = completeSettings(site);
  if (settings === undefined) return untried('settings');
  if (findRuntimes().length === 0) return unneeded('there is no runtime');
  const { places } = planLanes(readMachine(), settings.jobConcurrency);
  if (places[kind === BROWSER_CHECKS ? 'browser' : 'script'] === 0) {
    return unneeded('this machine is too small for it');
  }
  const type = findCheckType(kind)!;
  const spec = checkSchema(type).parse({ name: 'doctor', script, privateLocations: ['here'] });
  const folder = mkdtempSync(join(site.folder ?? tmpdir(), '.doctor-'));
  try {
    const check = {
      type,
      name: 'doctor',
      spec,
      settings,
      log: site.log,
      artifactsDir: join(folder, 'files'),
      folder,
    };
    const { report } = await runScriptCheck(check, signal);
    const [error] = report.errors;
    if (error !== undefined) return noScript(kind, error.message.split('\n')[0]!);
    return ok(
      kind === BROWSER_CHECKS
        ? 'Chromium starts behind its walls and opens a page'
        : 'a script runs behind its walls',
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Complete extends RunSettings {
  jobConcurrency: number | undefined;
}

/** Undefined where one of them is wrong. */
function completeSettings({ settings }: Site): Complete | undefined {
  if (!('extraCaCerts' in settings) || !('jobConcurrency' in settings)) return undefined;
  const { extraCaCerts, jobConcurrency, sandbox, useOsResolver, scriptEgress } = settings;
  const { blockedTargets, allowedTargets } = settings;
  if (sandbox === undefined || useOsResolver === undefined || scriptEgress === undefined) return undefined;
  if (blockedTargets === undefined || allowedTargets === undefined) return undefined;
  const policy = { blockedTargets, allowedTargets };
  return { extraCaCerts, jobConcurrency, sandbox, useOsResolver, scriptEgress, ...policy };
}

function noScript(kind: string, why: string): Finding {
  const what = kind === BROWSER_CHECKS ? 'the browser does not work' : 'no script runs';
  const remedy =
    kind === BROWSER_CHECKS
      ? 'Install it anew, with the libraries it names: vedette runtime install --force, and give the container 1.5 GB of memory and 512 processes'
      : 'Install the runtime anew: vedette runtime install --force, and look whether memory and processes of this container are enough';
  return { ...failed(ExitCode.internal, `${what}: ${why}`, remedy), notServed: [kind] };
}

/** What `vedette runtime install` and installations of suites fetch packages from, asked by npm itself. */
export const registry: Hop = {
  name: 'npm-registry',
  limitMs: REGISTRY_MS,
  look: async (site, signal) => {
    const offered = offeredRuntimes();
    if (offered.length === 0) return unneeded('nothing is installed from it here');
    const args = ['view', 'playwright', 'version', '--fetch-retries=0', `--fetch-timeout=${NPM_FETCH_MS}`];
    const options = { cwd: runtimePaths(offered[0]!).folder, env: npmEnvironment(site.env), signal };
    try {
      const { code, output } = await runProgram('npm', [...args, '--loglevel=error'], options);
      return code === 0
        ? ok(`it is reached: it has playwright ${output.trim()}`)
        : noRegistry(reasonIn(output));
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') return noRegistry(messageOf(error));
      return warning('npm is not on the PATH', 'Install npm where runtimes are to be installed');
    }
  },
  late: () => noRegistry('it does not answer'),
};

function reasonIn(output: string): string {
  const lines = output.split('\n').map((line) => line.replace(/^npm (error|ERR!) ?/, '').trim());
  const [first = 'npm fails', second = ''] = lines.filter(
    (line) => line !== '' && !line.startsWith('A complete log'),
  );
  return `${first} ${second}`.trim();
}

/** What is installed already runs without it. */
function noRegistry(why: string): Finding {
  const found = `npm does not reach its registry (${why})`;
  const remedy =
    'Set NPM_CONFIG_REGISTRY to a mirror that is reached from here, HTTPS_PROXY for the way there, or NODE_EXTRA_CA_CERTS for its authority';
  return findRuntimes().length > 0 ? warning(found, remedy) : failed(ExitCode.internal, found, remedy);
}
