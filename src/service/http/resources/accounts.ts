import { z } from 'zod';
import * as verbs from '../../verbs/index.ts';
import type { AccountRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import { instant, Instant } from './shapes.ts';

const tag = 'accounts';

const Account = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    runtimeId: z.string().nullable().describe('For checks that choose none, nor their group'),
    created_at: Instant,
  })
  .meta({ id: 'Account' });

const showAccount = (row: AccountRow): z.input<typeof Account> => ({
  id: row.id,
  name: row.name,
  runtimeId: row.runtime_id,
  created_at: instant(row.created_at),
});

export const accountRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/accounts',
      tag,
      summary: 'List the accounts that the API key opens',
      status: 200,
      reply: z.array(Account),
    },
    async (caller) => [showAccount(await verbs.getAccount(caller, 'me'))],
  ),
  route(
    {
      method: 'GET',
      path: '/v1/accounts/{accountId}',
      tag,
      summary: 'Read an account; `me` is the one of the API key',
      status: 200,
      reply: Account,
      errors: [404],
    },
    async (caller, { params }) => showAccount(await verbs.getAccount(caller, params.accountId)),
  ),
  route(
    {
      method: 'PUT',
      path: '/v1/accounts/{accountId}',
      tag,
      summary: 'Choose the runtime of checks that choose none; absent fields keep their value',
      body: verbs.AccountChange,
      status: 200,
      reply: Account,
      errors: [404],
    },
    async (caller, { params, body }) =>
      showAccount(await verbs.updateAccount(caller, params.accountId, body)),
  ),
];
