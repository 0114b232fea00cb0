import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { provision } from './provision.ts';

/**
 * `npm run check` and `npm test`. Check needs no service and takes seconds; test adds everything that
 * talks to real processes on this machine.
 *
 *   node test/support/lanes.ts check|test [vitest arguments]
 */
const root = join(import.meta.dirname, '../..');
const QUICK_PROJECTS = ['unit', 'arch', 'contract'];
const running = new Set<ReturnType<typeof spawn>>();

interface Tool {
  name: string;
  /** File under node_modules, or an own script. */
  script: string;
  args: string[];
}

const TOOLS: readonly Tool[] = [
  { name: 'types', script: 'node_modules/typescript/bin/tsc', args: ['-p', '.'] },
  { name: 'lint', script: 'node_modules/oxlint/bin/oxlint', args: ['--type-aware', '--quiet'] },
  { name: 'format', script: 'node_modules/prettier/bin/prettier.cjs', args: ['--check', '.'] },
  { name: 'generated text', script: 'test/support/gen.ts', args: ['--check'] },
];

/** Runs one program under this Node; its output appears only when it fails, unless `live`. */
async function run(
  script: string,
  args: readonly string[],
  live = false,
): Promise<{ ok: boolean; output: string }> {
  const child = spawn(process.execPath, [join(root, script), ...args], {
    cwd: root,
    stdio: live ? ['ignore', 'inherit', 'inherit'] : ['ignore', 'pipe', 'pipe'],
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

interface Tally {
  files: number;
  passed: number;
  failed: number;
  skipped: number;
  success: boolean;
}

async function runVitest(args: readonly string[]): Promise<Tally> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-tests-'));
  try {
    const report = join(folder, 'report.json');
    const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
    const { ok } = await run(
      'node_modules/vitest/vitest.mjs',
      ['run', '-c', 'test/vitest.config.ts', ...reporters, ...args],
      true,
    );
    return { ...(await readReport(report)), success: ok };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function readReport(file: string): Promise<Omit<Tally, 'success'>> {
  try {
    const report = JSON.parse(await readFile(file, 'utf8')) as Record<string, number> & {
      testResults: unknown[];
    };
    return {
      files: report.testResults.length,
      passed: report['numPassedTests'] ?? 0,
      failed: report['numFailedTests'] ?? 0,
      skipped: (report['numPendingTests'] ?? 0) + (report['numTodoTests'] ?? 0),
    };
  } catch {
    // Vitest ended before it could write a report; its exit code says so as well.
    return { files: 0, passed: 0, failed: 0, skipped: 0 };
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
  provision();
  // One after the other: tests with deadlines should not compete with a compiler for two cores.
  const tools = await Promise.all(TOOLS.map(runTool));
  return conclude('all tests', await runVitest(vitestArgs), tools);
}

function conclude(what: string, tally: Tally, tools: readonly boolean[]): boolean {
  const ok = tally.success && tools.every(Boolean);
  const counts = `${tally.files} files, ${tally.passed} tests, ${tally.skipped} skipped`;
  const trouble = `${tally.failed} failed, ${tools.filter((clean) => !clean).length} tools not clean`;
  console.log(ok ? `vedette: ${what} passed (${counts})` : `vedette: ${what} FAILED (${counts}, ${trouble})`);
  return ok;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    for (const child of running) child.kill(signal);
    process.exitCode = 128 + constants.signals[signal];
  });
}

const [lane, ...rest] = process.argv.slice(2);
const ok = lane === 'check' ? await check() : await test(rest);
process.exitCode ??= ok ? 0 : 1;
