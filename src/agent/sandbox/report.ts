import { ExitCode, FatalError } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import { lacksOf } from './landlock.ts';
import { trial, type Wall } from './trial.ts';

/** The walls around user code on this machine, as they were tried at the first look. */
export interface SandboxReport {
  /** `full`: every wall of the kernel stands. `partial`: some do. `none`: neither Landlock nor the filter. */
  state: 'full' | 'partial' | 'none';
  /** What is missing, as sentences. */
  missing: string[];
  mechanisms: Record<string, boolean>;
}

const MEANING: Readonly<Record<Wall, string>> = {
  limits: 'Limits: they could not be set, so the processes of a job carry no mark',
  privileges: 'Privileges: user code keeps some',
  users:
    'Users: user code runs as root; start the agent as another user, or install it where all users may read it',
  files: 'Files: user code can read what the agent can',
  ports: 'Ports: user code can connect to any TCP port',
  signals: 'Signals: user code can signal the agent',
  systemCalls: 'System calls: none is refused, which leaves ways around the other walls',
};

let report: SandboxReport | undefined;

export const sandboxReport = (): SandboxReport => (report ??= makeReport());

function makeReport(): SandboxReport {
  const { mechanisms, holds, complaints } = trial();
  const landlock = mechanisms?.landlock ?? 0;
  const fallen = Object.entries(MEANING)
    .filter(([wall]) => !holds[wall as Wall])
    .map(([, meaning]) => meaning);
  const missing = [...new Set([...lacksOf(landlock), ...fallen, ...complaints])];
  const anything = landlock > 0 || mechanisms?.filter === true;
  return {
    state: missing.length === 0 ? 'full' : anything ? 'partial' : 'none',
    missing,
    mechanisms: { ...holds, abstractSockets: landlock >= 6 },
  };
}

let required = false;

/** Whether a child may have fewer walls than this machine could give it. */
export const wallsAreRequired = (): boolean => required;

/**
 * Says what is missing: a warning, or the end of the start where every wall is required.
 *
 * @throws FatalError exit 2
 */
export function requireWalls(mode: 'best-effort' | 'require', log: Log): void {
  required = mode === 'require';
  const { state, missing } = sandboxReport();
  if (missing.length === 0) return;
  if (required) {
    throw new FatalError(
      ExitCode.usage,
      `SANDBOX=require: the walls around user code are not complete here. ${missing.join('. ')}. ` +
        'Use a kernel with Landlock (6.12 or newer), or set SANDBOX=best-effort',
    );
  }
  log.warn({ state, missing }, 'the walls around user code are not complete');
}
