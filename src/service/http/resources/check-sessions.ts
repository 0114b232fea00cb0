import { z } from 'zod';
import { wallMs } from '../../../kit/clock.ts';
import * as verbs from '../../verbs/index.ts';
import { route, type Route } from '../route.ts';
import { CheckSession, showSession, showStarted, StartedSession } from './check-session-entry.ts';

const tag = 'check sessions';

const WaitQuery = z.strictObject({ maxWaitSeconds: z.int().min(1).max(30).default(30) });

type Show = Record<string, unknown>;

/** The older routes know no CANCELLED. */
const asV1 = (session: Show): Show =>
  session.status === 'CANCELLED' ? { ...session, status: 'TIMED_OUT' } : session;
const asV2 = (session: Show): Show => session;

function versioned(version: 'v1' | 'v2'): Route[] {
  const deprecated = version === 'v1';
  const shown = deprecated ? asV1 : asV2;
  const show = (caller: verbs.Caller, session: verbs.Session): Show =>
    shown(showSession(session, caller.publicUrl, wallMs()));
  return [
    route(
      {
        method: 'POST',
        path: `/${version}/check-sessions/trigger`,
        tag,
        summary: 'Run checks now at all their locations',
        deprecated,
        body: verbs.TriggerInput,
        optionalBody: true,
        status: 201,
        reply: z.strictObject({ sessions: z.array(StartedSession) }),
        errors: [404],
      },
      async (caller, { body }) => {
        const rows = await verbs.trigger(caller, body);
        return { sessions: rows.map((row) => shown(showStarted(row, caller.publicUrl, wallMs()))) };
      },
    ),
    route(
      {
        method: 'GET',
        path: `/${version}/check-sessions/{checkSessionId}`,
        tag,
        summary: 'Read a check session; while it runs its results are incomplete',
        deprecated,
        status: 200,
        reply: CheckSession,
        errors: [404],
      },
      async (caller, { params }) => show(caller, await verbs.getSession(caller, params.checkSessionId)),
    ),
    route(
      {
        method: 'GET',
        path: `/${version}/check-sessions/{checkSessionId}/completion`,
        tag,
        summary: 'Wait for the end of a check session; 408 asks to repeat the call',
        deprecated,
        query: WaitQuery,
        status: 200,
        reply: CheckSession,
        errors: [404, 408],
      },
      async (caller, { params, query, signal }) => {
        const waitMs = query.maxWaitSeconds * 1000;
        return show(caller, await verbs.awaitSession(caller, params.checkSessionId, waitMs, signal));
      },
    ),
  ];
}

export const checkSessionRoutes: readonly Route[] = [
  ...versioned('v1'),
  ...versioned('v2'),
  route(
    {
      method: 'POST',
      path: '/v1/check-sessions/{checkSessionId}/cancel',
      tag,
      summary: 'Cancel what has not finished: all of it, or the named sequences',
      body: verbs.CancelInput,
      optionalBody: true,
      status: 204,
      errors: [404],
    },
    async (caller, { params, body }) => verbs.cancelSession(caller, params.checkSessionId, body),
  ),
];
