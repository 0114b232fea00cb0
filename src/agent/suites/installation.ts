import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { monoMs } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import { ExecutorFault } from '../ports.ts';
import * as answers from './answers.ts';
import { INSTALL_VARIABLES, installCommand, NPM, packageOf } from './commands.ts';
import type { RunContext, Suite } from './context.ts';
import { gateVariables } from './environment.ts';
import { fullDisk, saysFull } from './full-disk.ts';
import { SuiteProblem } from './problem.ts';
import type { Project } from './protocol.ts';
import { problem } from './verdict.ts';

const INSTALL_MS = 300_000;
const PACKED = 'dependencies.tar';

/**
 * Makes ready what the project's commands need: its Node or Bun, and its package manager.
 *
 * @returns folders for the PATH
 */
export async function takeTools(context: RunContext, project: Project): Promise<string[]> {
  const { suite, services, course, log } = context;
  const { packageManager } = project;
  const { name, version } = packageOf(packageManager);
  const engine = await services.engines.choose(suite, project);
  course.engine = engine;
  if (engine.note !== null) log.say('info', `${engine.note}: using ${engine.version}`);
  const own = await services.toolbox.get(name, version);
  const npm = await services.toolbox.get('npm', name === 'npm' ? version : NPM);
  course.packageManager = { name: packageManager.name, version };
  return [...engine.path, join(own, 'commands'), join(npm, 'commands')];
}

/** Puts the project's dependencies in their place: those of an earlier run, or newly installed. */
export async function installDependencies(
  context: RunContext,
  project: Project,
  path: string[],
): Promise<void> {
  const { suite, services, course } = context;
  const startedMs = monoMs();
  const key = keyOf(context, project);
  if (suite.refreshCache) await services.dependencies.remove(key);
  const fromCache = await unpackKept(context, key);
  if (!fromCache) await runInstall(context, project, path);
  course.install = { ms: Math.round(monoMs() - startedMs), fromCache };
  if (!fromCache && !services.dependencies.isOff) await keep(context, key);
}

async function unpackKept({ services, site, patience, log }: RunContext, key: string): Promise<boolean> {
  const kept = await services.dependencies.take(key);
  if (kept === undefined) return false;
  log.turnPage();
  try {
    // What was installed for other projects is not to be seen from here.
    const archive = await site.give(kept, PACKED);
    const question = { do: 'unpack', archive, into: site.project, kind: 'dependencies' } as const;
    await patience.within(site.ask(question, z.unknown()));
    await rm(archive);
    return true;
  } catch (error) {
    if (!(error instanceof ExecutorFault || error instanceof SuiteProblem)) throw error;
    if (saysFull(`${log.printed}\n${error.message}`)) throw fullDisk();
    log.say('warn', `${error.message}; installing again`);
    await services.dependencies.remove(key);
    return false;
  } finally {
    services.dependencies.release(key);
  }
}

async function runInstall(context: RunContext, project: Project, path: string[]): Promise<void> {
  const { suite, services, site, log, patience } = context;
  const { packageManager, lockFolder } = project;
  const isOwn = suite.installCommand === null;
  const command = suite.installCommand ?? installCommand(packageManager, services.runsInstallScripts);
  const cwd = isOwn ? join(site.project, lockFolder) : site.workingDir;
  const env = site.environment(path, site.gates.installs, {
    ...INSTALL_VARIABLES,
    ...context.course.engine?.variables,
    ...services.packageVariables,
    ...(await nativeWay(context, project)),
  });
  log.turnPage();
  const limit = {
    ms: INSTALL_MS,
    cut: () =>
      problem(
        'install',
        'INSTALL_TIMEOUT',
        `the installation of the dependencies was not finished within ${INSTALL_MS / 1000} s: ${log.lastWords}`,
      ),
  };
  const ran = site.ask({ do: 'run', command, cwd, env }, answers.Ended);
  const { code, signal } = await patience.within(ran, limit);
  if (code !== 0) {
    if (saysFull(log.printed)) throw fullDisk();
    if (NETWORK_FAULT.test(log.printed)) {
      throw new ExecutorFault(
        'REGISTRY_UNREACHABLE',
        `this agent could not reach the package registry: ${log.lastWords}`,
      );
    }
    const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
    throw new SuiteProblem('INSTALL_FAILED', `\`${command}\` ended with ${how}: ${log.lastWords}`);
  }
  await patience.within(site.ask({ do: 'programs', root: site.project }, z.unknown()));
}

/** As package managers and Node call what stands between them and a registry. */
const NETWORK_FAULT =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ERR_TARGET_BLOCKED|ERR_SOCKET_TIMEOUT|ConnectionRefused|UND_ERR_CONNECT_TIMEOUT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT_LOCALLY|UNABLE_TO_VERIFY_LEAF_SIGNATURE)\b/;

/**
 * Bun is no Node program and could not get to the agent's proxy: it gets the gate for one, and the gate leads
 * through the agent's.
 */
async function nativeWay(
  { services, site }: RunContext,
  { packageManager }: Project,
): Promise<Record<string, string>> {
  const gate = site.gates.installs;
  if (packageManager.name !== 'bun' || gate === null) return {};
  await gate.lead(services.registryProxy);
  return { ...gateVariables(gate), NO_PROXY: '', no_proxy: '' };
}

/** The next run is faster for it; this one has what it needs. */
async function keep({ services, site, patience, log }: RunContext, key: string): Promise<void> {
  try {
    const into = join(site.folder, PACKED);
    await patience.within(site.ask({ do: 'pack', root: site.project, into }, answers.Packed));
    await services.dependencies.keep(key, site.folder, PACKED);
  } catch (error) {
    if (!(error instanceof ExecutorFault) && !saysFull(messageOf(error))) throw error;
    log.say('warn', `the dependencies are not kept for the next run: ${messageOf(error)}`);
  }
}

/** Settings that make another installation of the same project; what they are worth as secrets does not. */
const OF_INSTALLATION = /^(npm_|yarn_|pnpm_|bun_|node_options$|corepack_)/i;
const OF_SECRETS = /auth|token|password|secret/i;

function keyOf({ suite, course }: RunContext, project: Project): string {
  const { name, version } = packageOf(project.packageManager);
  const settings = settingsOf(suite);
  const isByOwnCode = project.installsByOwnCode || settings.some((each) => /^node_options=/i.test(each));
  const parts = [
    project.dependenciesHash,
    isByOwnCode ? suite.bundle.sha256 : null,
    suite.cacheHash,
    suite.installCommand,
    suite.workingDir,
    course.engine?.version,
    name,
    version,
    process.arch,
    settings,
  ];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

const settingsOf = ({ environmentVariables }: Suite): string[] =>
  (environmentVariables ?? [])
    .filter(({ key }) => OF_INSTALLATION.test(key) && !OF_SECRETS.test(key))
    .map(({ key, value }) => `${key}=${value}`)
    .sort();
