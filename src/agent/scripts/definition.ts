import { z } from 'zod';
import { DEFAULT_SCRIPT_PATH, scriptFields } from '../../checks/script-fields.ts';
import type { Job } from '../../contract/index.ts';
import { derivedId } from '../../kit/ids.ts';
import { ExecutorFault } from '../ports.ts';
import type { UserFile } from './job-folder.ts';
import type { RunScript } from './protocol.ts';

/** What user code may be given beyond its own fields: by the check, its group, its account. */
const Surroundings = z.object({
  shouldFail: z.boolean().default(false),
  runtimeId: z.string().nullish(),
  environmentVariables: z.array(z.object({ key: z.string(), value: z.string() })).nullish(),
  snippets: z.record(z.string().regex(/^[^/\\\p{C}]{1,100}$/u), z.string()).nullish(),
});
export type Surroundings = z.infer<typeof Surroundings>;

const Definition = Surroundings.extend({
  ...scriptFields,
  sslCheckDomain: z.string().nullish(),
});
export type Definition = z.infer<typeof Definition>;

const Code = z.string().nullish();
const Path = scriptFields.scriptPath.optional();
const Files = scriptFields.dependencies.optional();
const Phases = z.object({ setup: z.string().nullable(), tearDown: z.string().nullable() }).nullish();

/** An API check's own code, and what its group and its snippets add. */
const ApiDefinition = Surroundings.extend({
  localSetupScript: Code,
  localTearDownScript: Code,
  setupScriptPath: Path,
  tearDownScriptPath: Path,
  setupScriptDependencies: Files,
  tearDownScriptDependencies: Files,
  groupScripts: Phases,
  snippetScripts: Phases,
});
export type ApiDefinition = z.infer<typeof ApiDefinition>;

/** Runs that somebody watches keep their trace and video when they pass, too. */
const WATCHED = /^(EDITOR$|TEST_|TRIGGER_(NO_)?RECORD$)/;

/** @throws ExecutorFault when the job is no browser or multistep check */
export const readDefinition = (job: Job): Definition => read(Definition, job);
/** @throws ExecutorFault */
export const readApiDefinition = (job: Job): ApiDefinition => read(ApiDefinition, job);

function read<S extends z.ZodType>(schema: S, job: Job): z.infer<S> {
  const parsed = schema.safeParse(job.spec);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue?.path.map(String).join('.') ?? '';
  throw new ExecutorFault(
    'INVALID_CHECK',
    `the check's definition is not valid: ${field} ${issue?.message ?? ''}`.trimEnd(),
  );
}

/** The files of a run, the script among them. */
export function filesOf({ script, scriptPath, dependencies, snippets }: Definition): UserFile[] {
  const own = script === null ? [] : [{ path: scriptPath ?? DEFAULT_SCRIPT_PATH, content: script }];
  const files = [...own, ...(dependencies ?? [])];
  return [
    ...files,
    ...snippetFiles(snippets).filter(({ path }) => !files.some((each) => each.path === path)),
  ];
}

/** Found by `./snippets/NAME.js` or without its ending. */
export function snippetFiles(snippets: Surroundings['snippets']): UserFile[] {
  return Object.entries(snippets ?? {}).map(([name, content]) => ({
    path: `snippets/${/\.[cm]?[jt]s$/.test(name) ? name : `${name}.js`}`,
    content,
  }));
}

/** Variables of the check win over what is built in. */
export function variablesOf(
  job: Job,
  runtimeId: string,
  { environmentVariables }: Surroundings,
): Record<string, string> {
  const isScheduled = job.runSource === undefined ? job.lane > 0 : job.runSource === 'SCHEDULER';
  const builtIn: Record<string, string | undefined> = {
    ACCOUNT_ID: job.accountId,
    CHECK_ID: job.checkId,
    CHECK_NAME: job.name,
    CHECK_TYPE: job.checkType,
    CHECK_RESULT_ID: isScheduled ? resultIdOf(job) : undefined,
    CHECK_RUN_ID: isScheduled ? String(job.runId) : undefined,
    REGION: job.location,
    RUNTIME_VERSION: runtimeId,
  };
  const own = (environmentVariables ?? []).map(({ key, value }) => [key, value]);
  const known = Object.entries(builtIn).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return { ...Object.fromEntries(known), ...Object.fromEntries(own) };
}

export const resultIdOf = ({ sequenceId, attempt, token }: Job): string =>
  derivedId(sequenceId, attempt, token);

/** The headless shell has no headed features; who asks for a channel means the whole browser. */
export function wantsFullBrowser({ playwrightConfig }: Definition): boolean {
  const use = playwrightConfig?.use;
  return use?.channel === 'chrome' || use?.channel === 'chromium' || use?.headless === false;
}

export function runMessage(job: Job, definition: Definition, runtimeId: string): RunScript {
  const { playwrightConfig, scriptPath, sslCheckDomain } = definition;
  return {
    t: 'run',
    checkType: job.checkType === 'MULTI_STEP' ? 'MULTI_STEP' : 'BROWSER',
    entry: scriptPath ?? DEFAULT_SCRIPT_PATH,
    env: variablesOf(job, runtimeId, definition),
    playwrightConfig,
    timeoutMs: job.timeoutMs,
    keepArtifacts: WATCHED.test(job.runSource ?? ''),
    sslCheckDomain: sslCheckDomain ?? null,
    fullBrowser: wantsFullBrowser(definition),
  };
}
