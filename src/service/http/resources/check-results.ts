import { z } from 'zod';
import * as verbs from '../../verbs/index.ts';
import { route, type Route } from '../route.ts';
import { CheckResult, resultFields, showResult } from './check-result-entry.ts';
import { CheckTypeName, fromUnix, paging } from './shapes.ts';

const tag = 'check results';

const UnixTime = z
  .number()
  .min(0)
  .max(1e14)
  .describe('UNIX time in seconds; milliseconds are understood too');
const dateOf = (unix: number | undefined): Date | undefined =>
  unix === undefined ? undefined : fromUnix(unix);

const ListQuery = z.strictObject({
  limit: paging.limit,
  nextId: z.string().max(200).optional().describe('From the previous answer'),
  from: UnixTime.optional().describe('Started at or after this UNIX time'),
  to: UnixTime.optional().describe('Started before this UNIX time'),
  location: z.string().max(64).optional().describe('Region code or slug of a private location'),
  checkType: CheckTypeName.optional(),
  hasFailures: z.boolean().optional(),
  resultType: z.enum(['FINAL', 'ATTEMPT', 'ALL']).default('FINAL'),
  fields: z.array(resultFields).optional().describe('Members of the entries to return; all without it'),
});

const ResultPage = z
  .strictObject({
    length: z.int(),
    entries: z.array(CheckResult.partial()),
    nextId: z.string().nullable(),
  })
  .meta({ id: 'CheckResultPage' });

function pick(entry: object, fields: readonly string[] | undefined): object {
  if (fields === undefined) return entry;
  return Object.fromEntries(Object.entries(entry).filter(([name]) => fields.includes(name)));
}

export const checkResultRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v2/check-results/{checkId}',
      tag,
      summary: 'List the results of a check, newest first',
      query: ListQuery,
      status: 200,
      reply: ResultPage,
      errors: [404],
    },
    async (caller, { params, query }) => {
      const { limit, nextId, from, to, fields, ...filter } = query;
      const page = await verbs.listResults(
        caller,
        params.checkId,
        { ...filter, from: dateOf(from), to: dateOf(to) },
        { limit, nextId },
      );
      const entries = page.rows.map((row) => pick(showResult(row, caller.publicUrl), fields));
      return { length: entries.length, entries, nextId: page.nextId };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/check-results/{checkId}/{checkResultId}',
      tag,
      summary: 'Read a check result',
      status: 200,
      reply: CheckResult,
      errors: [404],
    },
    async (caller, { params }) =>
      showResult(await verbs.getResult(caller, params.checkId, params.checkResultId), caller.publicUrl),
  ),
];
