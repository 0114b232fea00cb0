import { existsSync, readFileSync } from 'node:fs';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { ChildProgram } from './child.ts';
import type { Marker } from './marker.ts';

/** util-linux installs it here on every distribution; looked up once, never through PATH. */
const PRLIMIT = ['/usr/bin/prlimit', '/bin/prlimit'].find((path) => existsSync(path));

/** Sockets of 64 runs with both address families and a resolver each stay far below this. */
const OPEN_FILES = 4096;

/** What cannot be put around a child on this machine; empty when nothing is missing. */
export function missingWalls(): string[] {
  return PRLIMIT === undefined ? ['resource limits (the prlimit program of util-linux)'] : [];
}

/**
 * The command that runs `file` under kernel limits: no core dumps (they would hold what targets sent),
 * no files written by a probe, a bound on open files. `prlimit` replaces itself by the program, so the
 * process id stays the child's own.
 */
export function underLimits(
  file: string,
  args: readonly string[],
  program: ChildProgram,
  marker: Marker,
): { file: string; args: string[] } {
  if (PRLIMIT === undefined) return { file, args: [...args] };
  const files = Math.min(OPEN_FILES, hardLimitOfOpenFiles());
  return {
    file: PRLIMIT,
    args: [
      '--core=0:0',
      ...(program.folder === undefined ? ['--fsize=0:0'] : []),
      `--nofile=${files}:${files}`,
      `--rttime=${marker}:${marker}`,
      '--',
      file,
      ...args,
    ],
  };
}

/** A limit above the present hard one would need privileges and end the child before it starts. */
function hardLimitOfOpenFiles(): number {
  try {
    const line = /^Max open files\s+\S+\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return line?.[1] === undefined ? OPEN_FILES : Number(line[1]);
  } catch {
    return OPEN_FILES;
  }
}

export interface SandboxReport {
  /** Whether every wall stands on this machine, some do, or none. */
  state: 'full' | 'partial' | 'none';
  /** What is missing, as sentences. */
  missing: string[];
  mechanisms: Record<string, boolean>;
}

export function sandboxReport(): SandboxReport {
  const missing = missingWalls();
  return {
    state: missing.length === 0 ? 'full' : 'partial',
    missing,
    mechanisms: { limits: PRLIMIT !== undefined },
  };
}

/**
 * Says what is missing: a warning, or the end of the start where every wall is required.
 *
 * @throws FatalError exit 2
 */
export function requireWalls(mode: 'best-effort' | 'require', log: Log): void {
  const missing = missingWalls();
  if (missing.length === 0) return;
  if (mode === 'require') {
    throw new FatalError(
      ExitCode.usage,
      `SANDBOX=require: this machine lacks ${missing.join(', ')}. Install it, or set SANDBOX=best-effort`,
    );
  }
  log.warn({ missing }, 'the walls around probe processes are not complete');
}
