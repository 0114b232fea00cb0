import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { copyFile, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Authorities } from '../agent/authorities/index.ts';
import { planLanes, readMachine } from '../agent/admission/index.ts';
import { cancelledReport, faultReport } from '../agent/dispatch/index.ts';
import { EgressProxy } from '../agent/egress/index.ts';
import { ExecutorFault, type Finished } from '../agent/ports.ts';
import { hardenSelf, requireWalls } from '../agent/sandbox/index.ts';
import { ScriptRoom, scrubbedReport } from '../agent/scripts/index.ts';
import type { AgentSettings } from '../agent/settings.ts';
import type { CheckType } from '../checks/index.ts';
import { createEnvironment, execute, type TryReport } from '../checks/execute.ts';
import type { Artifact, Job } from '../contract/index.ts';
import { wallMs } from '../kit/clock.ts';
import { messageOf } from '../kit/errors.ts';
import { newId } from '../kit/ids.ts';
import type { Log } from '../kit/log.ts';

export type RunSettings = Pick<
  AgentSettings,
  'sandbox' | 'extraCaCerts' | 'useOsResolver' | 'blockedTargets' | 'allowedTargets' | 'scriptEgress'
>;

export interface ScriptCheck {
  type: CheckType;
  name: string;
  spec: object;
  settings: RunSettings;
  log: Log;
  /** Where the files of the run are kept; a new folder when absent. */
  artifactsDir: string | undefined;
  /** Where the folder of the run is made; a temporary one when absent. */
  folder?: string;
}

/** A file that the run left, or one that was not kept, with the reason. */
export type Kept = { name: string; path: string } | { name: string; reason: string };

/** Runs a check with user code in the agent's own rooms, without an agent around them. */
export async function runScriptCheck(
  check: ScriptCheck,
  signal: AbortSignal,
): Promise<{ report: TryReport; kept: Kept[] }> {
  hardenSelf();
  requireWalls(check.settings.sandbox, check.log);
  const dataDir = mkdtempSync(join(check.folder ?? tmpdir(), 'vedette-run-'));
  const egress = check.settings.scriptEgress === 'open' ? null : egressFor(check);
  const room = roomIn(dataDir, check, egress);
  const startedMs = wallMs();
  try {
    await room.prepare();
    const job = jobOf(check);
    const finished = await (check.type.lane === 'script'
      ? room.run(job, signal)
      : runBetweenScripts(room, job, check.settings, signal));
    if (finished === undefined) return { report: cancelledReport(startedMs), kept: [] };
    return { report: finished.report, kept: await keep(finished, check.artifactsDir) };
  } catch (error) {
    const code = error instanceof ExecutorFault ? error.code : 'AGENT_FAULT';
    return { report: faultReport(code, messageOf(error), startedMs), kept: [] };
  } finally {
    await room.stop();
    await egress?.stop();
    rmSync(dataDir, { recursive: true, force: true });
  }
}

/** An API check: its request is made here, its scripts run in a process of their own. */
function runBetweenScripts(
  room: ScriptRoom,
  job: Job,
  settings: ScriptCheck['settings'],
  signal: AbortSignal,
): Promise<Finished | undefined> {
  return room.withApiScripts(job, signal, async (scripts) => {
    const report = await execute(job, createEnvironment(environmentOptions(settings)), signal, scripts);
    return { report: scrubbedReport(report, scripts.scrubber), files: [], refused: [] };
  });
}

/** How the probes of an agent would be set up. */
export const environmentOptions = (settings: RunSettings): Parameters<typeof createEnvironment>[0] => ({
  useOsResolver: settings.useOsResolver,
  policy: { blocked: settings.blockedTargets, allowed: settings.allowedTargets },
});

function egressFor({ settings, log }: ScriptCheck): EgressProxy {
  const { useOsResolver, blockedTargets, allowedTargets } = settings;
  const policy = { blocked: blockedTargets, allowed: allowedTargets };
  return new EgressProxy({ setup: { useOsResolver, policy }, log, onLost: () => {} });
}

function roomIn(dataDir: string, { settings, log }: ScriptCheck, egress: EgressProxy | null): ScriptRoom {
  const { limitBytes } = planLanes(readMachine(), undefined);
  const authorities = new Authorities(settings.extraCaCerts);
  authorities.keepIn(join(dataDir, 'authorities'));
  return new ScriptRoom({
    dataDir,
    places: { browser: 1, multistep: 1, api: 1 },
    memoryOf: (kind) => limitBytes[kind === 'browser' ? 'browser' : 'script'],
    mayWarm: () => false,
    egress,
    extraCaCerts: authorities.file,
    browserAuthorities: () => authorities.browserDatabase(),
    ownSecrets: [],
    folderOf: (resultId) => join(dataDir, resultId),
    log,
    events: { onChange: () => {}, onEnded: () => {} },
  });
}

export function jobOf({ type, name, spec }: Pick<ScriptCheck, 'type' | 'name' | 'spec'>): Job {
  return {
    runId: 1,
    token: 1,
    attempt: 0,
    sequenceId: newId(),
    sessionId: newId(),
    lane: 0,
    checkId: newId(),
    checkType: type.name,
    name,
    location: 'here',
    proxyUrl: null,
    scheduledAt: new Date(wallMs()).toISOString(),
    timeoutMs: type.timeoutMs(spec),
    // Somebody watches: trace and video are kept when it passes, too.
    runSource: 'EDITOR',
    spec: { ...spec },
  };
}

async function keep({ files, refused }: Finished, dir: string | undefined): Promise<Kept[]> {
  const kept: Kept[] = refused.map(({ name, reason }: Artifact) => ({ name, reason: reason ?? '' }));
  if (files.length === 0) return kept;
  const folder = dir ?? mkdtempSync(join(tmpdir(), 'vedette-artifacts-'));
  mkdirSync(folder, { recursive: true });
  for (const { name, path } of files) {
    const to = join(folder, name);
    await mkdir(dirname(to), { recursive: true });
    await copyFile(path, to);
    kept.push({ name, path: to });
  }
  return kept;
}
