import { z } from 'zod';
import { wallMs } from '../../../kit/clock.ts';
import type { TriggerRow } from '../../store/index.ts';
import * as verbs from '../../verbs/index.ts';
import { route, tokenRoute, type Route } from '../route.ts';
import { showStarted, StartedSession } from './check-session-entry.ts';
import { Instant, instant, instantOrNull } from './shapes.ts';

const tag = 'triggers';

const shape = {
  id: z.int(),
  token: z.string().describe('Whoever has it may start the run'),
  created_at: Instant,
  called_at: Instant.nullable(),
  updated_at: Instant.nullable(),
};
const CheckTrigger = z.strictObject({ ...shape, checkId: z.uuid() }).meta({ id: 'CheckTrigger' });
const GroupTrigger = z.strictObject({ ...shape, groupId: z.int() }).meta({ id: 'CheckGroupTrigger' });

const showTrigger = (row: TriggerRow): Record<string, unknown> => ({
  id: row.id,
  token: row.token,
  created_at: instant(row.created_at),
  called_at: instantOrNull(row.called_at),
  updated_at: null,
  ...(row.check_id === null ? { groupId: row.group_id } : { checkId: row.check_id }),
});

interface Kind {
  of: verbs.TriggerOf;
  parameter: 'checkId' | 'groupId';
  what: string;
  reply: z.ZodType;
}

/** The same for checks and for groups. */
const routesOf = ({ of, parameter, what, reply }: Kind): Route[] => {
  const path = `/v1/triggers/${of}/{${parameter}}` as '/v1/triggers/checks/{id}';
  const link = `/${of}/{${parameter}}/trigger/{token}` as '/checks/{id}/trigger/{token}';
  const idIn = (params: Record<string, string>): string => params[parameter] ?? '';
  const own = { path, tag, deprecated: true, errors: [404] };
  return [
    route(
      { ...own, method: 'GET', summary: `Read the trigger of ${what}`, status: 200, reply },
      async (caller, { params }) => showTrigger(await verbs.getTrigger(caller, of, idIn(params))),
    ),
    route(
      { ...own, method: 'POST', summary: `Create the trigger of ${what}`, status: 201, reply },
      async (caller, { params }) => showTrigger(await verbs.createTrigger(caller, of, idIn(params))),
    ),
    route(
      { ...own, method: 'DELETE', summary: `Delete the trigger of ${what}: its token ends`, status: 204 },
      async (caller, { params }) => verbs.deleteTrigger(caller, of, idIn(params)),
    ),
    ...(['GET', 'POST'] as const).map((method) =>
      tokenRoute(
        {
          method,
          path: link,
          tag,
          summary: `Run ${what} now, by the token of its trigger`,
          deprecated: true,
          status: 201,
          reply: z.strictObject({ sessions: z.array(StartedSession) }),
          errors: [401, 404, 429],
        },
        async (caller, { params }) => {
          const rows = await verbs.callTrigger(caller, of, idIn(params), params.token);
          return { sessions: rows.map((row) => showStarted(row, caller.publicUrl, wallMs())) };
        },
      ),
    ),
  ];
};

export const triggerRoutes: readonly Route[] = [
  ...routesOf({ of: 'checks', parameter: 'checkId', what: 'a check', reply: CheckTrigger }),
  ...routesOf({
    of: 'check-groups',
    parameter: 'groupId',
    what: 'the checks of a group',
    reply: GroupTrigger,
  }),
];
