import { z } from 'zod';
import type { ErrorGroupRow } from '../../store/index.ts';
import * as verbs from '../../verbs/index.ts';
import { route, type Route } from '../route.ts';
import { Instant, instant, paging } from './shapes.ts';

const tag = 'error groups';

const shape = {
  id: z.uuid(),
  errorHash: z.string().describe('Of the cleaned message'),
  rawErrorMessage: z.string().nullable(),
  cleanedErrorMessage: z.string(),
  firstSeen: Instant,
  lastSeen: Instant,
  archivedUntilNextEvent: z.boolean(),
  rootCauseAnalyses: z.array(z.record(z.string(), z.unknown())),
};

const ErrorGroup = z.strictObject({ ...shape, checkId: z.uuid() }).meta({ id: 'ErrorGroup' });
const TestErrorGroup = z
  .strictObject({
    ...shape,
    environments: z.array(z.string()).nullable(),
    pwtMetadata: z
      .array(
        z.looseObject({
          projectName: z.string(),
          testFile: z.string(),
          testTitle: z.string(),
          suitePath: z.array(z.string()),
        }),
      )
      .nullable()
      .describe('The tests that had the error'),
    projectId: z.string().nullable(),
  })
  .meta({ id: 'TestSessionErrorGroup' });

const showShape = (row: ErrorGroupRow) => ({
  id: row.id,
  errorHash: row.error_hash,
  rawErrorMessage: row.raw_error_message,
  cleanedErrorMessage: row.cleaned_error_message,
  firstSeen: instant(row.first_seen),
  lastSeen: instant(row.last_seen),
  archivedUntilNextEvent: row.archived_until_next_event,
  rootCauseAnalyses: [],
});
const showGroup = (row: ErrorGroupRow) => ({ ...showShape(row), checkId: row.check_id });
const showTestGroup = (row: ErrorGroupRow) => ({
  ...showShape(row),
  environments: row.environments.length === 0 ? null : row.environments,
  pwtMetadata: row.pwt_metadata.length === 0 ? null : row.pwt_metadata,
  projectId: row.project_id,
});

const PageQuery = z.strictObject(paging);

interface Kind {
  of: 'checks' | 'tests';
  path: '/v1/error-groups' | '/v1/test-session-error-groups';
  what: string;
  entry: z.ZodType;
  show: (row: ErrorGroupRow) => object;
}

/** List, read and archive, the same for both kinds. */
const routesOf = ({ of, path, what, entry, show }: Kind): Route[] => [
  route(
    {
      method: 'GET',
      path,
      tag,
      summary: `List the error groups of ${what}, those that came last first`,
      query: PageQuery,
      status: 200,
      reply: z.array(entry),
    },
    async (caller, { query }) => (await verbs.listErrorGroups(caller, of, query)).map(show),
  ),
  route(
    {
      method: 'GET',
      path: `${path}/{id}` as '/v1/error-groups/{id}',
      tag,
      summary: `Read an error group of ${what}`,
      status: 200,
      reply: entry,
      errors: [404],
    },
    async (caller, { params }) => show(await verbs.getErrorGroup(caller, of, params.id)),
  ),
  route(
    {
      method: 'PATCH',
      path: `${path}/{id}` as '/v1/error-groups/{id}',
      tag,
      summary: `Archive an error group of ${what}: until its error comes again, or for ever`,
      body: verbs.ErrorGroupChange,
      status: 200,
      reply: entry,
      errors: [404],
    },
    async (caller, { params, body }) => show(await verbs.archiveErrorGroup(caller, of, params.id, body)),
  ),
];

export const errorGroupRoutes: readonly Route[] = [
  ...routesOf({ of: 'checks', path: '/v1/error-groups', what: 'checks', entry: ErrorGroup, show: showGroup }),
  route(
    {
      method: 'GET',
      path: '/v1/error-groups/checks/{checkId}',
      tag,
      summary: 'List the error groups of a check, those that came last first',
      query: PageQuery,
      status: 200,
      reply: z.array(ErrorGroup),
      errors: [404],
    },
    async (caller, { params, query }) =>
      (await verbs.listErrorGroupsOfCheck(caller, params.checkId, query)).map(showGroup),
  ),
  ...routesOf({
    of: 'tests',
    path: '/v1/test-session-error-groups',
    what: 'test sessions',
    entry: TestErrorGroup,
    show: showTestGroup,
  }),
  route(
    {
      method: 'GET',
      path: '/v1/test-session-error-groups/projects/{projectId}',
      tag,
      summary: 'List the error groups of the test sessions of a project',
      status: 200,
      reply: z.array(TestErrorGroup),
      errors: [404],
    },
    async (caller, { params }) =>
      (await verbs.listErrorGroupsOfProject(caller, params.projectId)).map(showTestGroup),
  ),
];
