import { BUNDLE_KEY, DEFAULT_RUNTIME } from '../../checks/index.ts';
import type { Check } from '../../checks/index.ts';
import type { Db } from '../ports.ts';
import {
  accounts,
  bundles,
  groups,
  snippets,
  variables,
  type BundleRow,
  type CheckRow,
  type SnippetRow,
  type VariableRow,
} from '../store/index.ts';
import type { Group } from './group-fields.ts';
import { inherited } from './inheritance.ts';

export type CheckToRun = Pick<CheckRow, 'account_id' | 'type' | 'group_id' | 'definition'>;

/** What an account adds to its checks. */
interface Account {
  runtimeId: string | null;
  variables: VariableRow[];
  snippets: SnippetRow[];
  bundles: BundleRow[];
}

interface Variable {
  key: string;
  value: string;
  locked: boolean;
  secret: boolean;
}
interface KeyValue {
  key: string;
}

/** What a check runs with. It may throw for a check that no build of this program has stored. */
export type DefinitionOf = (check: CheckToRun) => Record<string, unknown>;

/** Reads what `checks` share, in a handful of statements for all of them. */
export async function effectiveDefinitions(db: Db, checks: readonly CheckToRun[]): Promise<DefinitionOf> {
  const groupOf = await loadGroups(db, checks);
  const accountOf = await loadAccounts(db, checks, groupOf);
  return (check) => effective(check, groupOf(check), accountOf(check));
}

function effective(check: CheckToRun, group: Group | undefined, account: Account): Record<string, unknown> {
  const definition = check.definition as Check;
  const merged = {
    ...definition,
    ...inherited(check.type, group),
    environmentVariables: allVariables(account, group, definition),
    runtimeId: definition.runtimeId ?? group?.runtimeId ?? account.runtimeId ?? DEFAULT_RUNTIME,
    ...(check.type === 'API' ? apiPart(definition, group, account) : {}),
    ...(check.type === 'PLAYWRIGHT' ? suitePart(definition, account) : {}),
  };
  const required = requiredSnippets(merged, account.snippets);
  return required === null ? merged : { ...merged, snippets: required };
}

/** The later of two with the same name counts. */
function allVariables(account: Account, group: Group | undefined, check: Check): Variable[] {
  const baseUrl = group?.apiCheckDefaults.url ?? '';
  const all = [
    ...account.variables,
    ...(baseUrl === '' ? [] : [{ key: 'GROUP_BASE_URL', value: baseUrl, locked: false, secret: false }]),
    ...(group?.environmentVariables ?? []),
    ...(check.environmentVariables ?? []),
  ];
  return [
    ...new Map(all.map(({ key, value, locked, secret }) => [key, { key, value, locked, secret }])).values(),
  ];
}

function apiPart(check: Check, group: Group | undefined, account: Account): Record<string, unknown> {
  const code = (id: unknown): string | null =>
    account.snippets.find((snippet) => snippet.id === id)?.script ?? null;
  return {
    ...(group === undefined ? {} : { request: requestIn(check['request'] as ApiRequest, group) }),
    ...(group === undefined
      ? {}
      : {
          groupScripts: {
            setup: code(group.setupSnippetId) ?? group.localSetupScript,
            tearDown: code(group.tearDownSnippetId) ?? group.localTearDownScript,
          },
        }),
    ...(check['setupSnippetId'] === null && check['tearDownSnippetId'] === null
      ? {}
      : {
          snippetScripts: {
            setup: code(check['setupSnippetId']),
            tearDown: code(check['tearDownSnippetId']),
          },
        }),
  };
}

/** What agents need to fetch the project. */
function suitePart(check: Check, account: Account): Record<string, unknown> {
  const sha256 = sha256Of(check);
  const size = account.bundles.find((row) => row.sha256 === sha256)?.size ?? 0;
  return {
    bundle: { sha256, size },
    shard: null,
    refreshCache: false,
    streamLogs: false,
    isTestSession: false,
  };
}

const sha256Of = ({ codeBundlePath }: Record<string, unknown>): string =>
  BUNDLE_KEY.exec(typeof codeBundlePath === 'string' ? codeBundlePath : '')?.[1] ?? '';

interface ApiRequest {
  headers: KeyValue[];
  queryParameters: KeyValue[];
  assertions: object[];
  basicAuth: { username: string; password: string } | null;
}

/** The check's own headers and parameters win; assertions add up. */
function requestIn(request: ApiRequest, { apiCheckDefaults: defaults }: Group): ApiRequest {
  const auth = [request.basicAuth, defaults.basicAuth].find(
    (each) => each !== null && each.username + each.password !== '',
  );
  return {
    ...request,
    headers: beside(defaults.headers, request.headers, (key) => key.trim().toLowerCase()),
    queryParameters: beside(defaults.queryParameters, request.queryParameters, (key) => key),
    assertions: [...defaults.assertions, ...request.assertions],
    basicAuth: auth ?? request.basicAuth,
  };
}

function beside(shared: KeyValue[], own: KeyValue[], identity: (key: string) => string): KeyValue[] {
  const taken = new Set(own.map(({ key }) => identity(key)));
  return [...shared.filter(({ key }) => !taken.has(identity(key))), ...own];
}

const MENTION = 'snippets/';
/** A name that is put together when the code runs: `'./snippets/' + name`. */
const UNNAMED = /snippets\/(['"`]|\$\{)/;

/**
 * Code by name of the snippets that the check's code mentions as `snippets/NAME`, and of those that they
 * mention in turn: an account may have more than fit into a job. Null for none.
 */
function requiredSnippets(
  definition: Record<string, unknown>,
  all: readonly SnippetRow[],
): Record<string, string> | null {
  const found = new Map<string, string>();
  let open = codeIn(definition);
  for (let prefix = MENTION; open.length > 0; prefix = '/') {
    const wanted = open.some((text) => UNNAMED.test(text))
      ? all
      : all.filter(({ name }) => open.some((text) => text.includes(`${prefix}${name}`)));
    const fresh = wanted.filter(({ name }) => !found.has(name));
    for (const { name, script } of fresh) found.set(name, script);
    open = fresh.map(({ script }) => script);
  }
  return found.size === 0 ? null : Object.fromEntries(found);
}

/** Where check types, groups and `apiPart` have code: a text, or an object or a list with texts. */
const CODE_FIELDS = [
  'script',
  'dependencies',
  'localSetupScript',
  'localTearDownScript',
  'setupScriptDependencies',
  'tearDownScriptDependencies',
  'groupScripts',
  'snippetScripts',
];

/** Every text of a definition that may be code. */
function codeIn(definition: Record<string, unknown>): string[] {
  const texts: string[] = [];
  const collect = (value: unknown): void => {
    if (typeof value === 'string') texts.push(value);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(collect);
  };
  for (const name of CODE_FIELDS) collect(definition[name]);
  return texts;
}

async function loadGroups(
  db: Db,
  checks: readonly CheckToRun[],
): Promise<(check: CheckToRun) => Group | undefined> {
  const ids = new Set(checks.map(({ group_id }) => group_id).filter((id) => id !== null));
  const rows = await groups.findGroups(db, [...ids]);
  const byId = new Map(rows.map(({ id, definition }) => [id, definition as Group]));
  return ({ group_id }) => (group_id === null ? undefined : byId.get(group_id));
}

async function loadAccounts(
  db: Db,
  checks: readonly CheckToRun[],
  groupOf: (check: CheckToRun) => Group | undefined,
): Promise<(check: CheckToRun) => Account> {
  const ids = [...new Set(checks.map(({ account_id }) => account_id))];
  const withSnippets = checks.filter((check) => mayUseSnippets(check, groupOf(check)));
  const suites = checks
    .filter(({ type }) => type === 'PLAYWRIGHT')
    .map(({ definition }) => sha256Of(definition));
  const [runtimes, variableRows, snippetRows, bundleRows] = [
    await accounts.runtimesOf(db, ids),
    await variables.variablesOf(db, ids),
    await snippets.snippetsOf(db, [...new Set(withSnippets.map(({ account_id }) => account_id))]),
    await bundles.findBundles(db, ids, suites),
  ];
  const byAccount = new Map(
    ids.map((id) => [
      id,
      {
        runtimeId: runtimes.get(id) ?? null,
        variables: variableRows.filter((row) => row.account_id === id),
        snippets: snippetRows.filter((row) => row.account_id === id),
        bundles: bundleRows.filter((row) => row.account_id === id),
      },
    ]),
  );
  return ({ account_id }) => byAccount.get(account_id)!;
}

/** Whether it is worth to load the account's snippets, whose code may be large. */
function mayUseSnippets({ definition }: CheckToRun, group: Group | undefined): boolean {
  const chosen = [definition, group ?? {}].some(
    (each: Record<string, unknown>) =>
      typeof each['setupSnippetId'] === 'number' || typeof each['tearDownSnippetId'] === 'number',
  );
  return chosen || [...codeIn(definition), ...codeIn({ ...group })].some((code) => code.includes(MENTION));
}
