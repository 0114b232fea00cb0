import { codeProblems } from './script-fields.ts';

interface ScriptFile {
  path: string;
  content: string;
}

/** A script of an API check. */
export interface ApiScript {
  /** As a sentence calls it: `group setup script`. */
  title: string;
  /** Its path among the files; its author sees `/setup.js`. */
  entry: string;
}

/** The user code of one API check. */
export interface ApiCode {
  /** In the order in which they run. */
  setup: ApiScript[];
  teardown: ApiScript[];
  /** The scripts, and what they require beside one another. */
  files: ScriptFile[];
}

export interface PhaseScripts {
  setup: string | null;
  tearDown: string | null;
}

/** The fields that code comes in: the check's own, and those that the service adds from group and snippets. */
export interface ApiCodeFields {
  localSetupScript?: string | null | undefined;
  localTearDownScript?: string | null | undefined;
  setupScriptPath?: string | null | undefined;
  tearDownScriptPath?: string | null | undefined;
  setupScriptDependencies?: readonly ScriptFile[] | null | undefined;
  tearDownScriptDependencies?: readonly ScriptFile[] | null | undefined;
  groupScripts?: PhaseScripts | null | undefined;
  /** The code behind setupSnippetId and tearDownSnippetId. */
  snippetScripts?: PhaseScripts | null | undefined;
}

/** Of the code in one definition, as JSON: with the other fields a job travels in one message of 1 MiB. */
const MAX_API_CODE_BYTES = 400_000;

/**
 * Setup goes from the group inwards, teardown back out; a snippet that the check has chosen runs before its
 * own script. Empty scripts are none.
 */
export function apiCodeOf(spec: ApiCodeFields): ApiCode {
  const { groupScripts: group, snippetScripts: snippet } = spec;
  const [ownSetup, ownTeardown] = [ownOf(spec, PHASES[0]), ownOf(spec, PHASES[1])];
  const files = new Map([...filesOf(ownSetup), ...filesOf(ownTeardown)]);
  const own = (title: string, { path }: OwnCode, chosen: boolean): ApiScript[] =>
    chosen && hasCode(files.get(path)) ? [{ title, entry: path }] : [];
  const added = (title: string, code: string | null | undefined): ApiScript[] => {
    if (!hasCode(code)) return [];
    const entry = freePath(title.replace(' script', '').replaceAll(' ', '-'), files);
    files.set(entry, code);
    return [{ title, entry }];
  };
  const setup = [
    ...added('group setup script', group?.setup),
    ...added('setup snippet', snippet?.setup),
    ...own('setup script', ownSetup, isChosen(spec, PHASES[0])),
  ];
  const teardown = [
    ...added('teardown snippet', snippet?.tearDown),
    ...own('teardown script', ownTeardown, isChosen(spec, PHASES[1])),
    ...added('group teardown script', group?.tearDown),
  ];
  return { setup, teardown, files: Array.from(files, ([path, content]) => ({ path, content })) };
}

/** How many scripts a run of the check executes. */
export function countScripts(spec: ApiCodeFields): number {
  const { setup, teardown } = apiCodeOf(spec);
  return setup.length + teardown.length;
}

/** What no single field can say. */
export function apiCodeProblems(spec: ApiCodeFields): [field: string, message: string][] {
  const problems = PHASES.flatMap((phase) => phaseProblems(spec, phase));
  return problems.length > 0 ? problems : togetherProblems(spec);
}

const PHASES = [
  {
    script: 'localSetupScript',
    path: 'setupScriptPath',
    files: 'setupScriptDependencies',
    usualPath: 'setup.js',
  },
  {
    script: 'localTearDownScript',
    path: 'tearDownScriptPath',
    files: 'tearDownScriptDependencies',
    usualPath: 'teardown.js',
  },
] as const;
type Phase = (typeof PHASES)[number];

function phaseProblems(spec: ApiCodeFields, names: Phase): [field: string, message: string][] {
  const { path, script, dependencies } = ownOf(spec, names);
  if (script === null && (spec[names.path] ?? null) === null) return [];
  const fields: Readonly<Record<string, string>> = { script: names.script, dependencies: names.files };
  return codeProblems({ script, scriptPath: path, dependencies }).map(([field, message]) => [
    fields[field] ?? field,
    message.replace('scriptPath', names.path),
  ]);
}

/** Setup and teardown are one program: their files lie side by side. */
function togetherProblems(spec: ApiCodeFields): [field: string, message: string][] {
  const [setup, teardown] = PHASES.map((names) => filesOf(ownOf(spec, names)));
  const known = new Map(setup);
  const other = teardown?.find(([path, content]) => known.has(path) && known.get(path) !== content);
  if (other !== undefined) {
    return [['tearDownScriptDependencies', `${other[0]} has other content in the setup script's files`]];
  }
  const paths = [...known.keys(), ...(teardown ?? []).map(([path]) => path)];
  const folder = paths.find((path) => paths.some((each) => each.startsWith(`${path}/`)));
  if (folder !== undefined) return [['tearDownScriptDependencies', `${folder} is a file and a folder`]];
  const bytes = Buffer.byteLength(JSON.stringify([setup, teardown]));
  if (bytes <= MAX_API_CODE_BYTES) return [];
  const message = `the scripts of the check have ${bytes} bytes with their dependencies; at most ${MAX_API_CODE_BYTES} are allowed`;
  return [['localSetupScript', message]];
}

/** A dependency that only happens to be called setup.js is no setup script. */
const isChosen = (spec: ApiCodeFields, names: Phase): boolean =>
  hasCode(spec[names.script]) || (spec[names.path] ?? null) !== null;

interface OwnCode {
  path: string;
  /** Null where it is one of the dependencies, or nowhere. */
  script: string | null;
  dependencies: readonly ScriptFile[];
}

function ownOf(spec: ApiCodeFields, names: Phase): OwnCode {
  const script = spec[names.script];
  return {
    path: spec[names.path] ?? names.usualPath,
    script: hasCode(script) ? script : null,
    dependencies: spec[names.files] ?? [],
  };
}

function filesOf({ path, script, dependencies }: OwnCode): [path: string, content: string][] {
  const files = dependencies.map((file): [string, string] => [file.path, file.content]);
  return script === null ? files : [...files, [path, script]];
}

const hasCode = (code: string | null | undefined): code is string =>
  typeof code === 'string' && code.trim() !== '';

/** Names that end in `.js`, beside those that are taken. */
function freePath(name: string, files: ReadonlyMap<string, string>): string {
  for (let count = 1; ; count++) {
    const path = `${name}${count === 1 ? '' : `-${count}`}.js`;
    if (!files.has(path)) return path;
  }
}
