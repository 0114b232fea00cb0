import { existsSync, mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { planLanes, readMachine } from '../../agent/admission/index.ts';
import { DEFAULT_DIR } from '../../agent/data-dir.ts';
import { openSpool } from '../../agent/spool/index.ts';
import { codeOf, ExitCode, messageOf } from '../../kit/errors.ts';
import { failed, ok, untried, warning, type Finding, type Hop } from './hop.ts';
import { API_SCRIPTS, BROWSER_CHECKS, SCRIPT_CHECKS } from './kinds.ts';
import type { Site } from './site.ts';

const LIMIT_MS = 8_000;
/** An agent answers at once. */
const HEALTH_MS = 2_000;
const MB = 1024 * 1024;
const GB = 1024 * MB;
/** Results of a service that is away for an hour, and one run's files. */
const LEAST_DISK_BYTES = 500 * MB;
/** The agent and its probe processes; with less the system ends them. */
const LEAST_MEMORY_BYTES = 320 * MB;

/** The folder of the spool, by a spool of its own in it. */
export const dataFolder: Hop = {
  name: 'data-folder',
  limitMs: LIMIT_MS,
  look: (site) => {
    const { settings, log } = site;
    const { dataDir } = settings;
    const folder = dataDir ?? DEFAULT_DIR;
    const why = whyNotWritable(folder, log);
    if (why === undefined) {
      if (existsSync(folder)) site.folder = folder;
      return withSpace(folder);
    }
    if (dataDir !== undefined) return notWritable(`AGENT_DATA_DIR=${folder}`, folder, why);
    const other = whyNotWritable(tmpdir(), log);
    if (other !== undefined) return notWritable(`neither ${folder} nor ${tmpdir()}`, folder, other);
    return warning(
      `${folder} cannot be written (${why.text}), so results wait in a temporary folder, which a restart loses`,
      `Set AGENT_DATA_DIR to a folder that stays, or mount one at ${folder} that ${user()} may write`,
    );
  },
  late: ({ settings: { dataDir } }) =>
    failed(
      ExitCode.usage,
      `${dataDir ?? DEFAULT_DIR} does not answer: a write takes longer than ${LIMIT_MS / 1000} s`,
      'Set AGENT_DATA_DIR to a folder on a disk of this machine',
    ),
};

interface Why {
  code: string | undefined;
  text: string;
}

/** Makes the folder if it is not there, as the agent does; what was made for the trial is removed. */
function whyNotWritable(folder: string, log: Site['log']): Why | undefined {
  try {
    const made = mkdirSync(folder, { recursive: true, mode: 0o700 });
    const trial = mkdtempSync(join(folder, '.doctor-'));
    try {
      openSpool(trial, log).close();
    } finally {
      rmSync(trial, { recursive: true, force: true });
      if (made !== undefined) rmSync(made, { recursive: true });
    }
    return undefined;
  } catch (error) {
    return { code: codeOf(error), text: messageOf(error).replace(/, (mkdtemp|mkdir) .*$/, '') };
  }
}

const user = (): string => `user ${process.getuid?.() ?? ''}`.trim();

function notWritable(what: string, folder: string, { code, text }: Why): Finding {
  const isReadOnly = code === 'EROFS';
  const found = `${what}${what.startsWith('neither') ? ' can' : ' cannot'} be written: ${text}`;
  return failed(
    ExitCode.usage,
    found,
    isReadOnly
      ? `It is read-only: mount a writable volume there (docker run -v vedette:${folder}, or an emptyDir)`
      : `Set AGENT_DATA_DIR to a folder that ${user()} may write, or give this one to that user`,
  );
}

function withSpace(folder: string): Finding {
  if (!existsSync(folder)) return ok(`${folder} can be made`);
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const found = `${folder} can be written, ${size(free)} free`;
  return free < LEAST_DISK_BYTES
    ? warning(found, `Make room: below ${size(LEAST_DISK_BYTES)}, results and files of runs may not fit`)
    : ok(found);
}

const size = (bytes: number): string =>
  bytes >= GB ? `${(bytes / GB).toFixed(1)} GB` : `${Math.round(bytes / MB)} MB`;

/** Free, or in use by the agent that runs here already. */
export const healthPort: Hop = {
  name: 'health-port',
  limitMs: LIMIT_MS,
  look: async ({ settings: { healthHost, healthPort: port } }, signal) => {
    if (healthHost === undefined || port === undefined) return untried('settings');
    const error = await whyNotListening(healthHost, port);
    const place = `${healthHost}:${port}`;
    if (error === undefined) return ok(`${place} is free`);
    if (codeOf(error) === 'EADDRINUSE' && (await isAgent(port, signal))) {
      return ok(`an agent runs here already and listens on ${place}`);
    }
    return failed(
      ExitCode.usage,
      `${place} cannot be listened on: ${messageOf(error)}`,
      'Set AGENT_HEALTH_PORT to a free port above 1023, and AGENT_HEALTH_HOST to an address of this machine',
    );
  },
  late: () =>
    failed(ExitCode.usage, 'the port cannot be tried in time', 'Set AGENT_HEALTH_PORT to another port'),
};

function whyNotListening(host: string, port: number): Promise<Error | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', resolve);
    server.listen(port, host, () => server.close(() => resolve(undefined)));
  });
}

async function isAgent(port: number, signal: AbortSignal): Promise<boolean> {
  const soon = AbortSignal.any([signal, AbortSignal.timeout(HEALTH_MS)]);
  try {
    const body: unknown = await (await fetch(`http://127.0.0.1:${port}/health`, { signal: soon })).json();
    return typeof body === 'object' && body !== null && 'agentId' in body;
  } catch {
    return false;
  }
}

/** What the control groups leave, and what that is enough for. */
export const machine: Hop = {
  name: 'machine',
  limitMs: LIMIT_MS,
  look: ({ settings: { jobConcurrency } }) => {
    const found = readMachine();
    const { places } = planLanes(found, jobConcurrency);
    const { cpus, memoryLimitBytes, memoryFreeBytes, pidsFree } = found;
    const pids = Number.isFinite(pidsFree) ? `, room for ${pidsFree} processes` : '';
    const facts = `${Number(cpus.toFixed(2))} CPUs, ${size(memoryLimitBytes)} of memory, ${size(memoryFreeBytes)} free${pids}`;
    if (memoryLimitBytes < LEAST_MEMORY_BYTES) {
      return failed(
        ExitCode.internal,
        `${facts}: the agent alone needs ${size(LEAST_MEMORY_BYTES)}`,
        'Give it more memory: 512 MB for uptime checks, 1 GB and 1.5 GB for each browser check at once (docker run --memory, resources.limits.memory)',
      );
    }
    const missing = [
      ...(places.browser === 0 ? [BROWSER_CHECKS] : []),
      ...(places.script === 0 ? [SCRIPT_CHECKS, API_SCRIPTS] : []),
    ];
    if (missing.length > 0) {
      return warning(
        `${facts}: too small for ${missing.join(', ')}`,
        'Give it more memory and processes: 2 GB and 512 processes serve one browser check (docker run --memory, --pids-limit; resources.limits.memory)',
        missing,
      );
    }
    return ok(
      `${facts}: at once ${places.light} light runs, ${places.script} with scripts, ${places.browser} with a browser`,
    );
  },
  late: () => failed(ExitCode.internal, '/proc or /sys does not answer', 'Look whether both are mounted'),
};
