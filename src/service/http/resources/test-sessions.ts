import { z } from 'zod';
import { wallMs } from '../../../kit/clock.ts';
import * as verbs from '../../verbs/index.ts';
import { FileAnswer } from '../file-answer.ts';
import { route, type Route } from '../route.ts';
import { AssetList, AssetQuery, listOf, showTestAsset } from './assets.ts';
import { AnyCheck, showCheck } from './check-entry.ts';
import { showResult, TestSessionResult } from './check-result-entry.ts';
import { Moment } from './shapes.ts';
import {
  showListEntry,
  showTestSession,
  testResultUrl,
  testSessionUrl,
  TEST_STATUSES,
  TestSessionListEntry,
  TestSessionShape,
} from './test-session-entry.ts';

const tag = 'test sessions';

/** Of checks with their files, as JSON or packed by gzip. */
const MAX_RUN_BYTES = 8 * 1024 * 1024;

const WaitQuery = z.strictObject({ maxWaitSeconds: z.int().min(1).max(30).default(30) });

const ListQuery = z.strictObject({
  from: Moment.optional().describe('Started at or after this moment'),
  to: Moment.optional().describe('Started before this moment'),
  limit: z.int().min(1).max(100).default(20),
  nextId: z.string().max(200).optional().describe('From the previous answer'),
  statuses: z.array(z.enum(TEST_STATUSES)).default([...TEST_STATUSES]),
  branches: z.array(z.string().max(255)).default([]),
  users: z.array(z.string().max(255)).default([]).describe('Sessions started with an API key have no user'),
  providers: z.array(z.enum(['GITHUB', 'VERCEL', 'API', 'TRIGGER', 'PW_REPORTER'])).default([]),
  noUsers: z.boolean().default(false),
  textSearch: z
    .string()
    .min(3)
    .max(200)
    .optional()
    .describe('In the name, the branch and the commit message'),
  errorGroupId: z.uuid().optional(),
});

const show = (caller: verbs.Caller, session: verbs.TestSession): Record<string, unknown> =>
  showTestSession(session, caller.publicUrl, wallMs());

const byId = z.record(z.string(), z.uuid());

const LogQuery = z.strictObject({
  after: z.int().min(0).default(0).describe('next of the previous answer'),
  maxWaitSeconds: z.int().min(0).max(30).default(0).describe('How long to wait for something new'),
});

export const testSessionRoutes: readonly Route[] = [
  route(
    {
      method: 'POST',
      path: '/v1/test-sessions/trigger',
      tag,
      summary: 'Test stored checks now at one location; their own status and results stay as they are',
      body: verbs.TestTriggerInput,
      status: 201,
      reply: TestSessionShape,
      errors: [404],
    },
    async (caller, { body }) => show(caller, await verbs.triggerTests(caller, body)),
  ),
  route(
    {
      method: 'POST',
      path: '/v1/test-sessions/run',
      tag,
      summary: 'Test checks that are stored nowhere; the body may be packed by gzip',
      body: verbs.TestRunInput,
      maxBodyBytes: MAX_RUN_BYTES,
      status: 202,
      reply: z.strictObject({
        schedulingId: z.uuid(),
        testSessionId: z.uuid(),
        testResultIds: byId,
        sequenceIds: byId,
      }),
    },
    async (caller, { body }) => {
      const { testSessionId, sequenceIds } = await verbs.runTests(caller, body);
      return { schedulingId: testSessionId, testSessionId, testResultIds: sequenceIds, sequenceIds };
    },
  ),
  route(
    {
      method: 'POST',
      path: '/next/test-sessions/trigger',
      tag,
      summary: 'Test stored checks now at one location, for command lines',
      body: verbs.CommandTriggerInput,
      status: 201,
      reply: z.strictObject({
        checks: z.array(AnyCheck),
        testSessionId: z.uuid(),
        testResultIds: byId,
        sequenceIds: byId,
      }),
      errors: [404],
    },
    async (caller, { body }) => {
      const { rows, testSessionId, sequenceIds } = await verbs.triggerTestsOfCommand(caller, body);
      const checks = rows.map((row) => showCheck(row, { includeDependencies: false }));
      return { checks, testSessionId, testResultIds: sequenceIds, sequenceIds };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/scheduling/{schedulingId}/completion',
      tag,
      summary: 'Whether the checks of a run are scheduled; they are when its answer has come',
      query: WaitQuery,
      status: 200,
      reply: z.strictObject({
        schedulingId: z.uuid(),
        testSessionId: z.uuid(),
        status: z.enum(['PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED']),
        checksTotal: z.int(),
        error: z.strictObject({ code: z.string(), message: z.string() }).nullable(),
        createdAt: z.iso.datetime(),
        startedAt: z.iso.datetime(),
        endedAt: z.iso.datetime(),
      }),
      errors: [404],
    },
    async (caller, { params }) => {
      const { row, parts } = await verbs.getTestSession(caller, params.schedulingId);
      const at = row.created_at.toISOString();
      return {
        schedulingId: row.id,
        testSessionId: row.id,
        status: 'SUCCEEDED',
        checksTotal: parts.length,
        error: null,
        createdAt: at,
        startedAt: at,
        endedAt: at,
      };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions',
      tag,
      summary: 'List test sessions, newest first',
      query: ListQuery,
      status: 200,
      reply: z.strictObject({
        length: z.int(),
        entries: z.array(TestSessionListEntry),
        nextId: z.string().nullable(),
      }),
    },
    async (caller, { query }) => {
      const { limit, nextId, users, noUsers, textSearch, from, to, ...others } = query;
      if (users.length > 0 && !noUsers) return { length: 0, entries: [], nextId: null };
      const filter = {
        ...others,
        text: textSearch,
        from: from?.at,
        to: to && new Date(to.at.getTime() + to.lastsMs),
      };
      const page = await verbs.listTestSessions(caller, filter, { limit, nextId });
      const locationIds = await verbs.locationIdsOf(caller, page.sessions);
      const entries = page.sessions.map((session) =>
        showListEntry(session, caller.publicUrl, locationIds, wallMs()),
      );
      return { length: entries.length, entries, nextId: page.nextId };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/{testSessionId}',
      tag,
      summary: 'Read a test session; while it runs some results are PENDING',
      status: 200,
      reply: TestSessionShape,
      errors: [404],
    },
    async (caller, { params }) => show(caller, await verbs.getTestSession(caller, params.testSessionId)),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/{testSessionId}/completion',
      tag,
      summary: 'Wait for the end of a test session; 408 asks to repeat the call',
      query: WaitQuery,
      status: 200,
      reply: TestSessionShape,
      errors: [404, 408],
    },
    async (caller, { params, query, signal }) => {
      const waitMs = query.maxWaitSeconds * 1000;
      return show(caller, await verbs.awaitTestSession(caller, params.testSessionId, waitMs, signal));
    },
  ),
  route(
    {
      method: 'POST',
      path: '/v1/test-sessions/{testSessionId}/cancel',
      tag,
      summary: 'Cancel the Playwright suites that have not finished: all, or the named sequences',
      body: verbs.CancelInput,
      optionalBody: true,
      status: 204,
      errors: [404],
    },
    async (caller, { params, body }) => verbs.cancelTestSession(caller, params.testSessionId, body),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/{testSessionId}/results/{testSessionResultId}',
      tag,
      summary: 'Read a result of a test session',
      status: 200,
      reply: TestSessionResult,
      errors: [404],
    },
    async (caller, { params: { testSessionId, testSessionResultId: id } }) => {
      const { result, checkId } = await verbs.getTestResult(caller, testSessionId, id);
      const url = testResultUrl(caller.publicUrl, testSessionId, id);
      return { ...showResult(result, caller.publicUrl, url), checkId };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/{testSessionId}/results/{testSessionResultId}/assets',
      tag,
      summary: 'List the files of a result of a test session',
      query: AssetQuery,
      status: 200,
      reply: AssetList,
      errors: [404],
    },
    async (caller, { params: { testSessionId, testSessionResultId: id }, query }) => {
      const { result, checkId, assets } = await verbs.listTestAssets(caller, testSessionId, id);
      const url = testResultUrl(caller.publicUrl, testSessionId, id);
      const shown = assets.map((row) => showTestAsset(row, { result, checkId, testSessionId, url }));
      return listOf(shown, query);
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/{testSessionId}/results/{testSessionResultId}/assets/{assetId}',
      tag,
      summary: 'Download a file of a result of a test session, or with the header Range a part of it',
      status: 200,
      file: true,
      errors: [404, 409, 416],
    },
    async (caller, { params, asked }) => {
      const { testSessionId, testSessionResultId, assetId } = params;
      const { asset, read } = await verbs.openTestAsset(caller, testSessionId, testSessionResultId, assetId);
      const { name, content_type: contentType, size } = asset;
      return FileAnswer.of({ name, contentType, size, tag: asset.sha256 ?? asset.id, read }, asked);
    },
  ),
  route(
    {
      method: 'GET',
      path: '/next/test-sessions/{testSessionId}/link',
      tag,
      summary: 'Where a test session is shown',
      status: 200,
      reply: z.strictObject({ link: z.url() }),
      errors: [404],
    },
    async (caller, { params }) => {
      const { row } = await verbs.getTestSession(caller, params.testSessionId);
      return { link: testSessionUrl(caller.publicUrl, row.id) };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/next/test-sessions/{testSessionId}/results/{testSessionResultId}/links',
      tag,
      summary: 'Where a result of a test session and its traces, videos and screenshots are',
      status: 200,
      reply: z.strictObject({
        testResultLink: z.url(),
        testTraceLinks: z.array(z.url()),
        videoLinks: z.array(z.url()),
        screenshotLinks: z.array(z.url()),
      }),
      errors: [404],
    },
    async (caller, { params: { testSessionId, testSessionResultId: id } }) => {
      const { result, checkId, assets } = await verbs.listTestAssets(caller, testSessionId, id);
      const url = testResultUrl(caller.publicUrl, testSessionId, id);
      const shown = assets.map((row) => showTestAsset(row, { result, checkId, testSessionId, url }));
      const linksOf = (type: string): string[] =>
        shown.filter((each) => each.type === type).map((each) => each.url);
      return {
        testResultLink: url,
        testTraceLinks: linksOf('trace'),
        videoLinks: linksOf('video'),
        screenshotLinks: linksOf('screenshot'),
      };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/test-sessions/{testSessionId}/results/{testSessionResultId}/log',
      tag,
      summary: 'Read what a suite that was started with streamLogs prints, while it does',
      query: LogQuery,
      status: 200,
      reply: z
        .strictObject({
          entries: z.array(
            z.strictObject({
              shard: z.int().nullable().describe('Number of the part, of a suite in parts'),
              text: z.string(),
            }),
          ),
          next: z.int().describe('For after'),
          isOver: z.boolean().describe('Nothing more will come'),
        })
        .meta({ id: 'TestSessionLog' }),
      errors: [404],
    },
    async (caller, { params: { testSessionId, testSessionResultId: id }, query, signal }) => {
      const { after, maxWaitSeconds } = query;
      const from = { after, maxWaitMs: maxWaitSeconds * 1000, signal };
      const { rows, next, isOver } = await verbs.readTestLog(caller, testSessionId, id, from);
      return { entries: rows.map(({ shard, text }) => ({ shard, text })), next, isOver };
    },
  ),
];
