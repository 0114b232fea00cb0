import { z } from 'zod';
import * as verbs from '../../verbs/index.ts';
import type { SnippetRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import { instant, instantOrNull, Instant, paging } from './shapes.ts';

const tag = 'snippets';

const Snippet = z
  .strictObject({
    id: z.int(),
    name: z.string().describe('Scripts require it as ./snippets/NAME.js'),
    script: z.string(),
    created_at: Instant,
    updated_at: Instant.nullable(),
  })
  .meta({ id: 'Snippet' });

const showSnippet = (row: SnippetRow): z.input<typeof Snippet> => ({
  id: row.id,
  name: row.name,
  script: row.script,
  created_at: instant(row.created_at),
  updated_at: instantOrNull(row.updated_at),
});

export const snippetRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/snippets',
      tag,
      summary: 'List snippets, newest first',
      query: z.strictObject(paging),
      status: 200,
      reply: z.array(Snippet),
    },
    async (caller, { query }) => (await verbs.listSnippets(caller, query)).map(showSnippet),
  ),
  route(
    {
      method: 'POST',
      path: '/v1/snippets',
      tag,
      summary: 'Create a snippet',
      body: verbs.SnippetInput,
      status: 201,
      reply: Snippet,
      errors: [409],
    },
    async (caller, { body }) => showSnippet(await verbs.createSnippet(caller, body)),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/snippets/{id}',
      tag,
      summary: 'Read a snippet',
      status: 200,
      reply: Snippet,
      errors: [404],
    },
    async (caller, { params }) => showSnippet(await verbs.getSnippet(caller, params.id)),
  ),
  route(
    {
      method: 'PUT',
      path: '/v1/snippets/{id}',
      tag,
      summary: 'Update a snippet; absent fields keep their value',
      body: verbs.SnippetChange,
      status: 200,
      reply: Snippet,
      errors: [404, 409],
    },
    async (caller, { params, body }) => showSnippet(await verbs.updateSnippet(caller, params.id, body)),
  ),
  route(
    {
      method: 'DELETE',
      path: '/v1/snippets/{id}',
      tag,
      summary: 'Delete a snippet that is no setup or teardown',
      status: 204,
      errors: [404, 409],
    },
    async (caller, { params }) => verbs.deleteSnippet(caller, params.id),
  ),
];
