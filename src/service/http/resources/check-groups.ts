import { z } from 'zod';
import { GroupFields, type Group } from '../../definitions/index.ts';
import * as verbs from '../../verbs/index.ts';
import type { GroupRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import { AnyCheck, showCheck } from './check-entry.ts';
import { instant, instantOrNull, Instant, paging } from './shapes.ts';

const tag = 'check groups';

const readOnly = { id: z.int(), created_at: Instant, updated_at: Instant.nullable() };
const GroupInput = z.strictObject(GroupFields.shape).meta({ id: 'CheckGroupInput' });
const CheckGroup = z.strictObject({ ...GroupFields.shape, ...readOnly }).meta({ id: 'CheckGroup' });

const WriteQuery = z.strictObject({
  /** Subscribes a new group to all alert channels of the account. */
  autoAssignAlerts: z.boolean().default(true),
});
const ListQuery = z.strictObject({
  ...paging,
  tag: z.array(z.string()).optional(),
  name: z.array(z.string()).optional(),
});

function showGroup(row: GroupRow): z.input<typeof CheckGroup> {
  const group = row.definition as Group;
  return {
    ...group,
    environmentVariables: verbs.withoutSecrets(group.environmentVariables),
    id: row.id,
    created_at: instant(row.created_at),
    updated_at: instantOrNull(row.updated_at),
  };
}

/** v1 writes are the older names of the same. */
const writeRoutes = (version: 'v1' | 'v2'): Route[] => [
  route(
    {
      method: 'POST',
      path: `/${version}/check-groups` as '/v2/check-groups',
      tag,
      summary: 'Create a check group',
      ...(version === 'v1' ? { deprecated: true } : {}),
      query: WriteQuery,
      body: z.unknown(),
      shownBody: GroupInput,
      status: 201,
      reply: CheckGroup,
    },
    async (caller, { body }) => showGroup(await verbs.createGroup(caller, body)),
  ),
  route(
    {
      method: 'PUT',
      path: `/${version}/check-groups/{id}` as '/v2/check-groups/{id}',
      tag,
      summary: 'Update a check group and with it its checks; absent fields keep their value',
      ...(version === 'v1' ? { deprecated: true } : {}),
      query: WriteQuery,
      body: z.unknown(),
      shownBody: CheckGroup.partial(),
      status: 200,
      reply: CheckGroup,
      errors: [404],
    },
    async (caller, { params, body }) => showGroup(await verbs.updateGroup(caller, params.id, body)),
  ),
];

const memberRoutes = (version: 'v1' | 'v2'): Route[] => [
  route(
    {
      method: 'GET',
      path: `/${version}/check-groups/{id}/checks` as '/v2/check-groups/{id}/checks',
      tag,
      summary: 'List the checks of a group in the order in which they run',
      query: z.strictObject(paging),
      status: 200,
      reply: z.array(AnyCheck),
      errors: [404],
    },
    async (caller, { params, query }) =>
      (await verbs.listGroupChecks(caller, params.id, query)).map((row) =>
        showCheck(row, { includeDependencies: false }),
      ),
  ),
  route(
    {
      method: 'GET',
      path: `/${version}/check-groups/{groupId}/checks/{checkId}` as '/v2/check-groups/{groupId}/checks/{checkId}',
      tag,
      summary: 'Read a check of a group',
      status: 200,
      reply: AnyCheck,
      errors: [404],
    },
    async (caller, { params }) =>
      showCheck(await verbs.getGroupCheck(caller, params.groupId, params.checkId), {
        includeDependencies: false,
      }),
  ),
];

export const checkGroupRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/check-groups',
      tag,
      summary: 'List check groups, newest first',
      query: ListQuery,
      status: 200,
      reply: z.array(CheckGroup),
    },
    async (caller, { query }) => {
      const { limit, page, tag: tags, name: names } = query;
      return (await verbs.listGroups(caller, { tags, names }, { limit, page })).map(showGroup);
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/check-groups/{id}',
      tag,
      summary: 'Read a check group',
      status: 200,
      reply: CheckGroup,
      errors: [404],
    },
    async (caller, { params }) => showGroup(await verbs.getGroup(caller, params.id)),
  ),
  ...writeRoutes('v2'),
  ...writeRoutes('v1'),
  route(
    {
      method: 'DELETE',
      path: '/v1/check-groups/{id}',
      tag,
      summary: 'Delete a check group that has no checks',
      status: 204,
      errors: [404, 409],
    },
    async (caller, { params }) => verbs.deleteGroup(caller, params.id),
  ),
  ...memberRoutes('v1'),
  ...memberRoutes('v2'),
];
