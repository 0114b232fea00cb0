import { z } from 'zod';
import { SuiteMetrics } from '../../../checks/index.ts';
import * as verbs from '../../verbs/index.ts';
import type { CheckStatusRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import { instant, Instant } from './shapes.ts';

const tag = 'check statuses';

const CheckStatus = z
  .strictObject({
    name: z.string(),
    checkId: z.uuid(),
    hasFailures: z.boolean(),
    hasErrors: z.boolean(),
    isDegraded: z.boolean(),
    longestRun: z.number().nullable(),
    shortestRun: z.number().nullable(),
    lastRunLocation: z.string(),
    lastCheckRunId: z.int(),
    sslDaysRemaining: z.number().nullable(),
    testMetrics: SuiteMetrics.nullable().describe('Of a Playwright suite: its tests by their outcome'),
    created_at: Instant,
    updated_at: Instant,
  })
  .meta({ id: 'CheckStatus' });

function showStatus({
  createdAt,
  updatedAt,
  testMetrics,
  ...status
}: CheckStatusRow): z.input<typeof CheckStatus> {
  return {
    ...status,
    testMetrics: SuiteMetrics.safeParse(testMetrics).data ?? null,
    sslDaysRemaining: null,
    created_at: instant(createdAt),
    updated_at: instant(updatedAt),
  };
}

export const checkStatusRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/check-statuses',
      tag,
      summary: 'Last final result of every check that has one',
      status: 200,
      reply: z.array(CheckStatus),
    },
    async (caller) => (await verbs.listCheckStatuses(caller)).map(showStatus),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/check-statuses/{checkId}',
      tag,
      summary: 'Last final result of a check',
      status: 200,
      reply: CheckStatus,
      errors: [404],
    },
    async (caller, { params }) => showStatus(await verbs.getCheckStatus(caller, params.checkId)),
  ),
];
