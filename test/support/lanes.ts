import { spawn } from 'node:child_process';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { provision } from './provision.ts';
import type { Tally } from './tally.ts';

/**
 * `npm run check`, `npm test` and `npm run test:long`. Check needs no service and takes seconds; test adds
 * what talks to real processes on this machine and takes minutes; long is what takes minutes by itself.
 *
 *   node test/support/lanes.ts check|test|long [vitest arguments]
 */
const root = join(import.meta.dirname, '../..');
const QUICK_PROJECTS = ['unit', 'arch', 'contract'];
/** Images that are built and tried, a chart with every option, hostile code that takes the whole machine, … */
const LONG_PROJECTS = ['image', 'helm', 'hostile', 'suites', 'comparison', 'long'];
const running = new Set<ReturnType<typeof spawn>>();
const stop = new AbortController();

interface Tool {
  name: string;
  /** File under node_modules, or an own script. */
  script: string;
  args: string[];
}

/** Both tools remember here what was clean, which halves the time of the next check. */
const CACHE = 'node_modules/.cache/vedette';

const TOOLS: readonly Tool[] = [
  {
    name: 'types',
    script: 'node_modules/typescript/bin/tsc',
    args: ['-p', '.', '--incremental', '--tsBuildInfoFile', `${CACHE}/types`],
  },
  { name: 'lint', script: 'node_modules/oxlint/bin/oxlint', args: ['--type-aware', '--quiet'] },
  {
    name: 'format',
    script: 'node_modules/prettier/bin/prettier.cjs',
    args: ['--check', '--cache', '--cache-location', `${CACHE}/format`, '.'],
  },
  { name: 'generated text', script: 'test/support/gen.ts', args: ['--check'] },
];

/**
 * Runs one program under this Node.
 * @param shown adds to its environment and lets it print at once; without, its output is returned
 */
async function run(
  script: string,
  args: readonly string[],
  shown?: Record<string, string>,
): Promise<{ ok: boolean; output: string }> {
  const child = spawn(process.execPath, [join(root, script), ...args], {
    cwd: root,
    stdio: shown === undefined ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...shown },
  });
  running.add(child);
  const output: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => output.push(text));
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      running.delete(child);
      resolve({ ok: code === 0, output: output.join('') });
    });
  });
}

async function runTool({ name, script, args }: Tool): Promise<boolean> {
  const begun = performance.now();
  const { ok, output } = await run(script, args);
  console.log(`vedette: ${name} ${ok ? 'clean' : 'NOT CLEAN'} (${seconds(begun)})`);
  if (!ok) console.log(output);
  return ok;
}

const seconds = (begun: number): string => `${((performance.now() - begun) / 1000).toFixed(1)} s`;

type Verdict = Tally & { success: boolean };

async function runVitest(args: readonly string[]): Promise<Verdict> {
  // Everything temporary goes with this folder. PostgreSQL's own user must get through it.
  const folder = await mkdtemp(join(tmpdir(), 'vedette-tests-'));
  await chmod(folder, 0o755);
  const file = join(folder, 'tally.json');
  try {
    const reporters = ['--reporter=default', `--reporter=${join(root, 'test/support/tally.ts')}`];
    const { ok } = await run(
      'node_modules/vitest/vitest.mjs',
      ['run', '-c', 'test/vitest.config.ts', ...reporters, ...args],
      { TALLY_FILE: file, TMPDIR: folder, NODE_COMPILE_CACHE: join(root, CACHE, 'compiled') },
    );
    return { ...(await readTally(file)), success: ok };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function readTally(file: string): Promise<Tally> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as Tally;
  } catch {
    // Vitest ended before it could write one; its exit code says so as well.
    return { files: 0, passed: 0, failed: 0, skipped: {} };
  }
}

async function check(): Promise<boolean> {
  const [tally, ...tools] = await Promise.all([
    runVitest(QUICK_PROJECTS.flatMap((name) => ['--project', name])),
    ...TOOLS.map(runTool),
  ]);
  return conclude('the check', tally, tools);
}

async function test(vitestArgs: readonly string[]): Promise<boolean> {
  if (!(await isProvisioned())) return false;
  // One after the other: tests with deadlines should not compete with a compiler for two cores.
  const tools = await Promise.all(TOOLS.map(runTool));
  return conclude(
    'all tests',
    await runVitest([...LONG_PROJECTS.flatMap((name) => ['--project', `!${name}`]), ...vitestArgs]),
    tools,
  );
}

async function long(vitestArgs: readonly string[]): Promise<boolean> {
  if (!(await isProvisioned())) return false;
  const chosen = LONG_PROJECTS.flatMap((name) => ['--project', name]);
  return conclude('the long tests', await runVitest([...chosen, ...vitestArgs]), []);
}

async function isProvisioned(): Promise<boolean> {
  await provision(stop.signal);
  return !stop.signal.aborted;
}

function conclude(what: string, verdict: Verdict, tools: readonly boolean[]): boolean {
  const { files, passed, failed, skipped } = verdict;
  for (const [reason, count] of Object.entries(skipped)) {
    console.log(`vedette: ${count} tests skipped: ${reason}`);
  }
  const skips = Object.values(skipped).reduce((sum, count) => sum + count, 0);
  const counts = `${files} files, ${passed} tests, ${skips} skipped`;
  const trouble = `${failed} failed, ${tools.filter((clean) => !clean).length} tools not clean`;
  const ok = verdict.success && tools.every(Boolean);
  console.log(ok ? `vedette: ${what} passed (${counts})` : `vedette: ${what} FAILED (${counts}, ${trouble})`);
  return ok;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    stop.abort();
    for (const child of running) child.kill(signal);
    process.exitCode = 128 + constants.signals[signal];
  });
}

const LANES: Readonly<Record<string, (vitestArgs: readonly string[]) => Promise<boolean>>> = {
  check,
  test,
  long,
};

const [lane = 'test', ...rest] = process.argv.slice(2);
const ok = await LANES[lane]!(rest);
process.exitCode ??= ok ? 0 : 1;
