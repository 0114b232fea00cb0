import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  installTool,
  INSTALLED_TOOLS,
  isToolInstalled,
  MORE_TOOLS,
  USUAL_TOOLS,
  type Tool,
} from '../agent/suites/index.ts';
import { codeOf, ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';
import { lockFolder } from './installation-lock.ts';
import { FORBIDDEN, NOT_WRITABLE, runNpm } from './npm.ts';

export interface ToolOptions {
  log: (line: string) => void;
  /** Names of what is not brought by itself. */
  more?: readonly string[];
  env: Environment;
  signal: AbortSignal;
  /** Where the tools lie; for tests. */
  folder?: string;
}

/** Half a gigabyte at most, from a registry that answers slowly. */
const TIMEOUT_MS = 600_000;

/** @throws FatalError that names what there is */
export function toolsOf(names: readonly string[]): Tool[] {
  const wanted = names.map((name) => {
    const tool = MORE_TOOLS[name];
    if (tool !== undefined) return tool;
    const known = Object.keys(MORE_TOOLS).join(' and ');
    throw new FatalError(ExitCode.usage, `runtime: --suite-tools '${name}': there are ${known}`);
  });
  return [...USUAL_TOOLS, ...wanted];
}

/**
 * Brings the package managers of Playwright suites, and what is named besides; an agent that has them does
 * not fetch them at the first run of a suite.
 *
 * @throws FatalError that says what to change
 */
export async function installTools(options: ToolOptions): Promise<void> {
  const { folder = INSTALLED_TOOLS, log, signal } = options;
  const missing = toolsOf(options.more ?? []).filter((tool) => !isToolInstalled(tool, folder));
  if (missing.length === 0) return;
  try {
    mkdirSync(folder, { recursive: true });
    await using _lock = await lockFolder(folder, signal, () =>
      log('tools for suites: another installation is under way; waiting for its end'),
    );
    await bring(
      missing.filter((tool) => !isToolInstalled(tool, folder)),
      folder,
      options,
    );
  } catch (error) {
    throw explained(error, signal);
  }
}

async function bring(
  tools: readonly Tool[],
  folder: string,
  { log, env, signal }: ToolOptions,
): Promise<void> {
  if (tools.length === 0) return;
  const names = tools.map(({ name, version }) => `${name}@${version}`);
  const packed = mkdtempSync(join(folder, '.packed-'));
  try {
    await runNpm(['pack', '--silent', '--loglevel=error', '--pack-destination', packed, ...names], {
      cwd: packed,
      env,
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      fault,
    });
    for (const tool of tools) await installTool(tool, join(packed, archiveOf(tool)), folder);
  } finally {
    rmSync(packed, { recursive: true, force: true });
  }
  log(`tools for suites are installed: ${names.join(', ')}`);
}

/** As `npm pack` names it. */
const archiveOf = ({ name, version }: Tool): string =>
  `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;

const fault = (problem: string): FatalError =>
  new FatalError(
    ExitCode.internal,
    `tools for suites are not installed, so agents fetch them when a suite needs them: ${problem}`,
  );

function explained(error: unknown, signal: AbortSignal): unknown {
  if (error instanceof FatalError) return error;
  if (signal.aborted) return fault('the installation was stopped');
  return fault(FORBIDDEN.test(codeOf(error) ?? '') ? NOT_WRITABLE : messageOf(error));
}
