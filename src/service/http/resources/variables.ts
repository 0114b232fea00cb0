import { z } from 'zod';
import * as verbs from '../../verbs/index.ts';
import type { VariableRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import { instant, instantOrNull, Instant, paging } from './shapes.ts';

const tag = 'environment variables';

const Variable = z
  .strictObject({
    key: z.string(),
    value: z.string().nullable().describe('Null for a secret'),
    locked: z.boolean(),
    secret: z.boolean(),
    created_at: Instant,
    updated_at: Instant.nullable(),
  })
  .meta({ id: 'Variable' });

const showVariable = (row: VariableRow): z.input<typeof Variable> => ({
  key: row.key,
  value: row.secret ? null : row.value,
  locked: row.locked,
  secret: row.secret,
  created_at: instant(row.created_at),
  updated_at: instantOrNull(row.updated_at),
});

export const variableRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/variables',
      tag,
      summary: 'List the variables of all checks, by key',
      query: z.strictObject(paging),
      status: 200,
      reply: z.array(Variable),
    },
    async (caller, { query }) => (await verbs.listVariables(caller, query)).map(showVariable),
  ),
  route(
    {
      method: 'POST',
      path: '/v1/variables',
      tag,
      summary: 'Create a variable',
      body: verbs.VariableInput,
      status: 201,
      reply: Variable,
      errors: [409],
    },
    async (caller, { body }) => showVariable(await verbs.createVariable(caller, body)),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/variables/{key}',
      tag,
      summary: 'Read a variable',
      status: 200,
      reply: Variable,
      errors: [404],
    },
    async (caller, { params }) => showVariable(await verbs.getVariable(caller, params.key)),
  ),
  route(
    {
      method: 'PUT',
      path: '/v1/variables/{key}',
      tag,
      summary: 'Update a variable; absent fields keep their value, and a secret that comes back empty does',
      body: verbs.VariableChange,
      status: 200,
      reply: Variable,
      errors: [404],
    },
    async (caller, { params, body }) => showVariable(await verbs.updateVariable(caller, params.key, body)),
  ),
  route(
    {
      method: 'DELETE',
      path: '/v1/variables/{key}',
      tag,
      summary: 'Delete a variable',
      status: 204,
      errors: [404],
    },
    async (caller, { params }) => verbs.deleteVariable(caller, params.key),
  ),
];
