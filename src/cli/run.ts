import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { isDeepStrictEqual } from 'node:util';
import { Authorities } from '../agent/authorities/index.ts';
import { agentSettings } from '../agent/settings.ts';
import { createEnvironment, execute, type TryReport } from '../checks/execute.ts';
import { checkSchema, checkTypes, findCheckType, type CheckType } from '../checks/index.ts';
import { codeOf, ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import { createLog } from '../kit/log.ts';
import { parseNaming } from '../kit/problems.ts';
import { readSettings } from '../kit/settings.ts';
import type { Invocation } from './command.ts';
import { describeReport, printable } from './report-text.ts';
import { environmentOptions, runScriptCheck, type Kept, type RunSettings } from './run-script.ts';

const { useOsResolver, sandbox, extraCaCerts, blockedTargets, allowedTargets, scriptEgress } = agentSettings;
/** The agent's settings that matter to a run without an agent. */
const RUN_SETTINGS = {
  useOsResolver,
  sandbox,
  extraCaCerts,
  blockedTargets,
  allowedTargets,
  scriptEgress,
};

/** `vedette run FILE`: one check, here and now, without a service. */
export async function run({ operands, options, env, shutdown }: Invocation): Promise<ExitCode> {
  const { type, name, spec } = parseCheck(await readText(operands[0]!));
  const { values: settings } = readSettings(RUN_SETTINGS, env);
  // The request of an API check is made in this process.
  new Authorities(settings.extraCaCerts).trustHere();
  const artifactsDir = typeof options['artifacts'] === 'string' ? options['artifacts'] : undefined;
  const log = createLog({ level: 'silent', format: 'json', name: 'run' });
  const { report, kept } =
    type.jobClass(spec) !== 'light'
      ? await runScriptCheck({ type, name, spec, settings, log, artifactsDir }, shutdown.drain)
      : { report: await runProbe(type, spec, settings, shutdown.drain), kept: [] };
  console.log(
    options['json'] === true
      ? JSON.stringify({ checkType: type.name, name, ...report, artifacts: kept }, null, 2)
      : [describeReport(type.name, name, report), ...kept.map(describeFile)].join('\n'),
  );
  return exitCodeOf(report);
}

function runProbe(
  type: CheckType,
  spec: object,
  settings: RunSettings,
  signal: AbortSignal,
): Promise<TryReport> {
  const job = { checkType: type.name, spec, timeoutMs: type.timeoutMs(spec), proxyUrl: null };
  return execute(job, createEnvironment(environmentOptions(settings)), signal);
}

const describeFile = (file: Kept): string =>
  'path' in file
    ? `  file     ${printable(file.path, 500)}`
    : `  not kept ${printable(file.name)}: ${file.reason}`;

async function readText(file: string): Promise<string> {
  try {
    return file === '-' ? await text(process.stdin) : await readFile(file, 'utf8');
  } catch (error) {
    throw new FatalError(ExitCode.usage, `cannot read ${file}: ${codeOf(error) ?? messageOf(error)}`);
  }
}

/**
 * A check as its author wrote it, with all defaults. Where it runs is settled here, so that locations
 * may be missing.
 *
 * @throws FatalError with exit code 2 and every problem of the file
 */
function parseCheck(json: string): { type: CheckType; name: string; spec: object } {
  const { checkType, ...definition } = parseObject(json);
  const type = typeof checkType === 'string' ? findCheckType(checkType) : undefined;
  if (type === undefined) {
    const allowed = checkTypes().filter(({ lane }) => lane !== 'suite');
    throw badFile([`checkType: must be one of ${allowed.map(({ name }) => name).join(', ')}`]);
  }
  if (type.lane === 'suite') {
    throw badFile(['checkType: a suite is a whole project: run `vedette pw-test` in its folder']);
  }
  const isPlaced = !isDeepStrictEqual(definition['privateLocations'] ?? [], []);
  const placed = isPlaced ? definition : { ...definition, privateLocations: ['here'] };
  const parsed = parseNaming(checkSchema(type), placed, 'the check');
  if (!parsed.success) throw badFile(parsed.problems);
  return { type, name: String(parsed.data['name']), spec: parsed.data };
}

function parseObject(json: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw badFile([`it is not JSON: ${messageOf(error)}`]);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw badFile(['it must hold one check: a JSON object']);
  }
  return { ...value };
}

function badFile(problems: readonly string[]): FatalError {
  return new FatalError(
    ExitCode.usage,
    `the check cannot be run:\n${problems.map((p) => `  ${p}`).join('\n')}`,
  );
}

function exitCodeOf({ flags }: TryReport): ExitCode {
  if (flags.hasErrors || flags.isCancelled) return ExitCode.internal;
  return flags.hasFailures ? ExitCode.checkFailed : ExitCode.done;
}
