import { sql } from 'kysely';
import { SuiteResult, type SuiteTest } from '../../checks/index.ts';
import { derivedId } from '../../kit/ids.ts';
import type { Trx } from '../ports.ts';
import { toJson } from '../store/index.ts';
import { errorMessage, type ErrorMessage } from './error-message.ts';
import type { StoredResult } from './settle.ts';

/** Groups of one result, and tests that one group names: enough to work on. */
const MAX_GROUPS = 50;
const MAX_TESTS = 100;

/** Of these each error counts; others stop at their first, and what follows comes of it. */
const MANY_ERRORS: ReadonlySet<string> = new Set(['BROWSER', 'MULTI_STEP', 'PLAYWRIGHT']);

/** A test that had an error, as the interface names it. */
interface FailedTest {
  projectName: string;
  testFile: string;
  testTitle: string;
  suitePath: string[];
}

interface Noted {
  id: string;
  account_id: string;
  check_id: string | null;
  project_id: string | null;
  error_hash: string;
  raw_error_message: string;
  cleaned_error_message: string;
  seen: string;
  environments: string[];
  pwt_metadata: FailedTest[];
}

/** What test sessions say about the errors that they find. */
interface TestContext {
  id: string;
  project_id: string | null;
  environment: string | null;
}

/** Notes what failed. @returns the groups of each result */
export async function noteErrors(
  trx: Trx,
  results: readonly StoredResult[],
): Promise<(result: StoredResult) => string[]> {
  const failed = results.filter(({ result }) => result.flags.hasFailures);
  const contexts = await testContexts(trx, failed);
  const noted = new Map(failed.map((each) => [each, groupsIn(each, contexts)]));
  await upsert(trx, [...noted.values()].flat());
  return (result) => (noted.get(result) ?? []).map(({ id }) => id);
}

async function testContexts(trx: Trx, results: readonly StoredResult[]): Promise<Map<string, TestContext>> {
  const ids = results.flatMap(({ run }) => (run.test_session_id === null ? [] : [run.test_session_id]));
  if (ids.length === 0) return new Map();
  const { rows } = await sql<TestContext>`
    select id, project_id, metadata ->> 'environment' as environment
    from test_session where id = any(${[...new Set(ids)]}::uuid[])`.execute(trx);
  return new Map(rows.map((row) => [row.id, row]));
}

function groupsIn({ run, result }: StoredResult, contexts: ReadonlyMap<string, TestContext>): Noted[] {
  const context = contexts.get(run.test_session_id ?? '');
  const checkId = run.test_session_id === null ? run.check_id : null;
  const projectId = context?.project_id ?? null;
  const owner = checkId ?? `test sessions of ${run.account_id} ${projectId ?? ''}`;
  const suite = SuiteResult.pick({ errors: true, tests: true }).safeParse(
    result.detail['playwrightCheckResult'],
  ).data;
  const tests = failedTests(suite?.tests ?? []);
  const errors = suite === undefined || suite.errors.length === 0 ? result.errors : suite.errors;
  return messagesOf(run.check_type, errors).map((message) => ({
    id: derivedId('error group', owner, message.hash),
    account_id: run.account_id,
    check_id: checkId,
    project_id: projectId,
    error_hash: message.hash,
    raw_error_message: message.raw,
    cleaned_error_message: message.cleaned,
    seen: result.stoppedAt,
    environments: typeof context?.environment === 'string' ? [context.environment] : [],
    pwt_metadata: (tests.get(message.hash) ?? []).slice(0, MAX_TESTS),
  }));
}

function messagesOf(checkType: string, errors: readonly { message: string }[]): ErrorMessage[] {
  const counted = MANY_ERRORS.has(checkType) ? errors : errors.slice(0, 1);
  const messages = counted.map(({ message }) => errorMessage(message));
  return [...new Map(messages.map((each) => [each.hash, each])).values()].slice(0, MAX_GROUPS);
}

/** By the hash of their errors. */
function failedTests(tests: readonly SuiteTest[]): Map<string, FailedTest[]> {
  const pairs = tests.flatMap(({ project, file, titlePath, errors }) =>
    errors.map(({ message }) => ({
      hash: errorMessage(message).hash,
      test: {
        projectName: project,
        testFile: file,
        testTitle: titlePath.at(-1) ?? '',
        suitePath: titlePath.slice(0, -1),
      },
    })),
  );
  return new Map(
    [...Map.groupBy(pairs, ({ hash }) => hash)].map(([hash, all]) => [hash, all.map(({ test }) => test)]),
  );
}

/** In the order of their ids, so that two transactions never wait for each other. */
async function upsert(trx: Trx, noted: readonly Noted[]): Promise<void> {
  if (noted.length === 0) return;
  const latest = [...new Map(noted.map((each) => [each.id, each])).values()];
  await sql`
    insert into error_group as g (id, account_id, check_id, project_id, error_hash, raw_error_message,
      cleaned_error_message, first_seen, last_seen, environments, pwt_metadata)
    select id, account_id, check_id, project_id, error_hash, raw_error_message, cleaned_error_message,
      seen, seen, environments, pwt_metadata
    from json_to_recordset(${toJson(latest)}::json) as i(
      id uuid, account_id uuid, check_id uuid, project_id text, error_hash text, raw_error_message text,
      cleaned_error_message text, seen timestamptz, environments text[], pwt_metadata jsonb)
    where check_id is null or exists (select 1 from check_def c where c.id = i.check_id)
    order by id
    on conflict (id) do update set
      raw_error_message = excluded.raw_error_message,
      first_seen = least(g.first_seen, excluded.first_seen),
      last_seen = greatest(g.last_seen, excluded.last_seen),
      archived_until_next_event = false,
      environments = array(select distinct unnest(g.environments || excluded.environments) order by 1 limit 100),
      pwt_metadata = coalesce((select jsonb_agg(t) from (
        select distinct value as t from jsonb_array_elements(excluded.pwt_metadata || g.pwt_metadata)
        limit ${MAX_TESTS}) tests), '[]')`.execute(trx);
}
