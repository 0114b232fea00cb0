import { z } from 'zod';
import { checkTypes, type CheckType } from '../../../checks/index.ts';
import * as verbs from '../../verbs/index.ts';
import type { CheckRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import {
  AnyCheck,
  AnyCheckChange,
  AnyCheckInput,
  changeOf,
  entryOf,
  inputOf,
  showCheck,
} from './check-entry.ts';
import { CheckTypeName, paging } from './shapes.ts';

const tag = 'checks';

const WriteQuery = z.strictObject({
  /** Subscribes a new check to all alert channels of the account. */
  autoAssignAlerts: z.boolean().default(true),
});

const ListQuery = z.strictObject({
  ...paging,
  tag: z.array(z.string()).optional(),
  checkType: CheckTypeName.optional(),
  search: z.string().max(255).optional(),
  apiCheckUrlFilterPattern: z.string().max(2048).optional(),
  status: z.enum(['passing', 'failing', 'degraded']).optional(),
  applyGroupSettings: z.boolean().default(false),
});

const ReadQuery = z.strictObject({
  includeDependencies: z.boolean().default(false),
  applyGroupSettings: z.boolean().default(false),
});

async function showAll(
  caller: verbs.Caller,
  rows: readonly CheckRow[],
  options: { includeDependencies: boolean; applyGroupSettings: boolean },
): Promise<Record<string, unknown>[]> {
  const { includeDependencies, applyGroupSettings } = options;
  const groupOf = applyGroupSettings ? await verbs.groupsOf(caller, rows) : () => undefined;
  return rows.map((row) => showCheck(row, { includeDependencies, group: groupOf(row) }));
}

/** Create and update of one type. Nothing here knows which types there are. */
function writeRoutes(type: CheckType): Route[] {
  const { name, route: segment } = type;
  return [
    route(
      {
        method: 'POST',
        path: `/v1/checks/${segment}`,
        tag,
        summary: `Create a check of type ${name}`,
        query: WriteQuery,
        body: z.unknown(),
        shownBody: inputOf(type),
        status: 201,
        reply: entryOf(type),
      },
      async (caller, { body }) => showCheck(await verbs.createCheck(caller, body, type)),
    ),
    route(
      {
        method: 'PUT',
        path: `/v1/checks/${segment}/{id}` as '/v1/checks/{id}',
        tag,
        summary: `Update a check of type ${name}; absent fields keep their value`,
        query: WriteQuery,
        body: z.unknown(),
        shownBody: changeOf(type),
        status: 200,
        reply: entryOf(type),
        errors: [404],
      },
      async (caller, { params, body }) => showCheck(await verbs.updateCheck(caller, params.id, body, type)),
    ),
  ];
}

const readRoutes = (['v1', 'v2', 'v3'] as const).map((version) =>
  route(
    {
      method: 'GET',
      path: `/${version}/checks/{id}`,
      tag,
      summary: 'Read a check',
      query: ReadQuery,
      status: 200,
      reply: AnyCheck,
      errors: [404],
    },
    async (caller, { params, query }) => {
      const row = await verbs.getCheck(caller, params.id);
      const [shown] = await showAll(caller, [row], query);
      return shown;
    },
  ),
);

export const checkRoutes: readonly Route[] = [
  ...checkTypes().flatMap(writeRoutes),
  ...readRoutes,
  route(
    {
      method: 'GET',
      path: '/v1/checks',
      tag,
      summary: 'List checks, newest first',
      query: ListQuery,
      status: 200,
      reply: z.array(AnyCheck),
    },
    async (caller, { query }) => {
      const { limit, page, tag: tags, checkType: type, apiCheckUrlFilterPattern: urlPattern } = query;
      const { search, status, applyGroupSettings } = query;
      const rows = await verbs.listChecks(
        caller,
        { type, search, tags, urlPattern, status },
        { limit, page },
      );
      return showAll(caller, rows, { includeDependencies: false, applyGroupSettings });
    },
  ),
  route(
    {
      method: 'POST',
      path: '/v1/checks',
      tag,
      summary: 'Create a check of the type that the body names',
      deprecated: true,
      query: WriteQuery,
      body: z.unknown(),
      shownBody: AnyCheckInput,
      status: 201,
      reply: AnyCheck,
    },
    async (caller, { body }) => showCheck(await verbs.createCheck(caller, body)),
  ),
  route(
    {
      method: 'PUT',
      path: '/v1/checks/{id}',
      tag,
      summary: 'Update a check of any type',
      deprecated: true,
      query: WriteQuery,
      body: z.unknown(),
      shownBody: AnyCheckChange,
      status: 200,
      reply: AnyCheck,
      errors: [404],
    },
    async (caller, { params, body }) => showCheck(await verbs.updateCheck(caller, params.id, body)),
  ),
  route(
    {
      method: 'DELETE',
      path: '/v1/checks/{id}',
      tag,
      summary: 'Delete a check',
      status: 204,
      errors: [404],
    },
    async (caller, { params }) => verbs.deleteCheck(caller, params.id),
  ),
];
