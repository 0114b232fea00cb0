import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { DEFAULT_RUNTIME, offeredRuntimes, readRecord, runtimePaths } from '../agent/runtimes/index.ts';
import { ExitCode, FatalError } from '../kit/errors.ts';
import type { Invocation, OptionValue } from './command.ts';
import { BROWSER_SOURCES, type BrowserSource } from './install-browsers.ts';
import { assertOffered, installRuntime } from './install-runtime.ts';
import { installTools, toolsOf } from './install-tools.ts';

/** `vedette runtime install` and `vedette runtime list`: what user code runs with. */
export async function runtime(invocation: Invocation): Promise<ExitCode> {
  const [action, ...ids] = invocation.operands;
  if (action === 'install') return install(ids, invocation);
  if (action === 'list' && ids.length === 0) {
    console.log(table(offeredRuntimes().map((id) => describe(id))));
    return ExitCode.done;
  }
  const problem =
    action === 'list' ? 'list takes no ID' : `unknown ACTION '${action}'; there are install and list`;
  throw new FatalError(ExitCode.usage, `runtime: ${problem}; 'vedette help runtime' says more`);
}

async function install(asked: readonly string[], { options, env, shutdown }: Invocation): Promise<ExitCode> {
  const ids = asked.length === 0 ? [DEFAULT_RUNTIME] : asked;
  for (const id of ids) assertOffered(id);
  const browserSource = browserSourceOf(options['browser-source']);
  const more = namesIn(options['suite-tools']);
  toolsOf(more);
  const log = (line: string): void => console.log(line);
  for (const id of ids) {
    await installRuntime(id, {
      log,
      browsers: options['no-browser'] !== true,
      headlessOnly: options['headless-only'] === true,
      ...(browserSource === undefined ? {} : { browserSource }),
      force: options['force'] === true,
      env,
      signal: shutdown.drain,
    });
  }
  if (options['no-suites'] !== true) await installTools({ log, more, env, signal: shutdown.drain });
  return ExitCode.done;
}

const namesIn = (asked: OptionValue): string[] =>
  String(asked ?? '')
    .split(/[ ,]+/)
    .filter(Boolean);

function browserSourceOf(asked: OptionValue): BrowserSource | undefined {
  if (asked === undefined) return undefined;
  const source = BROWSER_SOURCES.find((each) => each === asked);
  if (source !== undefined) return source;
  const known = BROWSER_SOURCES.join(' and ');
  throw new FatalError(ExitCode.usage, `runtime: --browser-source '${String(asked)}': there are ${known}`);
}

const HEADINGS = ['RUNTIME', 'NODE', 'PLAYWRIGHT', 'BROWSER', 'STATE'];
const SOURCES = { download: 'downloaded', machine: "the machine's", none: '' };

/** One line of the table; of what is not installed, what would be. */
function describe(id: string): string[] {
  const record = readRecord(id);
  const isDefault = id === DEFAULT_RUNTIME ? ', default' : '';
  if (record === undefined) {
    const { node, playwright } = wantedVersions(id);
    const begun = existsSync(runtimePaths(id).modules);
    return [id, node, playwright, '-', `${begun ? 'incomplete or outdated' : 'not installed'}${isDefault}`];
  }
  const { source, version } = record.browsers;
  const browser = source === 'none' ? 'none' : `${version} (${SOURCES[source]})`;
  return [id, record.node, record.playwright, browser, `installed${isDefault}`];
}

const Manifest = z.object({
  dependencies: z.object({ playwright: z.string() }),
  optionalDependencies: z.record(z.string(), z.string()),
});

function wantedVersions(id: string): { node: string; playwright: string } {
  const file = join(runtimePaths(id).folder, 'package.json');
  const { dependencies, optionalDependencies } = Manifest.parse(JSON.parse(readFileSync(file, 'utf8')));
  const node = optionalDependencies[`node-${process.platform}-${process.arch}`] ?? '-';
  return { node, playwright: dependencies.playwright };
}

function table(rows: readonly string[][]): string {
  const all = [HEADINGS, ...rows];
  const widths = HEADINGS.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  const lines = all.map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)).join('  '));
  return lines.map((line) => line.trimEnd()).join('\n');
}
