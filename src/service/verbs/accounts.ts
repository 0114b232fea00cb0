import { z } from 'zod';
import { RUNTIMES } from '../../checks/index.ts';
import { hashSecret, maskSecret, newId, newSecret } from '../../kit/ids.ts';
import type { ServiceContext } from '../ports.ts';
import { accounts, type AccountRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { notFound, Refusal } from './refusal.ts';

export interface Bootstrap {
  accountId: string;
  /** Shown this once: the store keeps its hash only. */
  apiKey: string;
}

/** At the first start: one account with one API key. Undefined when the store has an account. */
export async function bootstrap(
  { store }: Pick<ServiceContext, 'store'>,
  wanted: { accountId?: string | undefined; apiKey?: string | undefined },
): Promise<Bootstrap | undefined> {
  const accountId = wanted.accountId ?? newId();
  const apiKey = wanted.apiKey ?? newSecret('vk');
  const key = { id: newId(), name: 'first key', hash: hashSecret(apiKey), masked: maskSecret(apiKey) };
  const made = await accounts.createFirstAccount(store.db, { accountId, name: 'Default account', key });
  return made ? { accountId, apiKey } : undefined;
}

/** A key that was good stays good this long without asking the store, ms. */
const REMEMBERED_MS = 5000;
/** Keys remembered at most, so that the memory stays bounded. */
const REMEMBERED_KEYS = 1000;

/** Finds the account of an API key, and of an account header that must agree with it. */
export class Authenticator {
  readonly #context: Pick<ServiceContext, 'store'>;
  readonly #known = new Map<string, { accountId: string; until: number }>();

  constructor(context: Pick<ServiceContext, 'store'>) {
    this.#context = context;
  }

  /** @throws Refusal `badKey`, or `forbidden` when the header names another account */
  async accountOf(apiKey: string | undefined, accountHeader: string | undefined): Promise<string> {
    const accountId = apiKey === undefined ? undefined : await this.#ownerOf(apiKey);
    if (accountId === undefined) throw new Refusal('badKey', 'Bad Token');
    if (accountHeader !== undefined && accountHeader.toLowerCase() !== accountId) {
      throw new Refusal('forbidden', 'x-service-account: must be the account of the API key');
    }
    return accountId;
  }

  async #ownerOf(apiKey: string): Promise<string | undefined> {
    const hash = hashSecret(apiKey);
    const name = hash.toString('base64');
    const known = this.#known.get(name);
    if (known !== undefined && known.until > performance.now()) return known.accountId;
    const { db } = this.#context.store;
    const owner = await accounts.ownerOfApiKey(db, hash);
    if (owner === undefined) return undefined;
    await accounts.noteApiKeyUse(db, owner.keyId);
    if (this.#known.size >= REMEMBERED_KEYS) this.#known.clear();
    this.#known.set(name, { accountId: owner.accountId, until: performance.now() + REMEMBERED_MS });
    return owner.accountId;
  }
}

/** `id` may be `me`. Other accounts do not exist for this caller. */
export async function getAccount(caller: Caller, id: string): Promise<AccountRow> {
  if (id !== 'me' && id.toLowerCase() !== caller.accountId) throw notFound('account', id);
  const account = await accounts.findAccount(caller.store.db, caller.accountId);
  if (account === undefined) throw notFound('account', id);
  return account;
}

export const AccountChange = z.strictObject({
  /** For checks that choose none, nor their group; null leaves it to the service. */
  runtimeId: z.enum(RUNTIMES).nullable().optional(),
});

export async function updateAccount(
  caller: Caller,
  id: string,
  { runtimeId }: z.output<typeof AccountChange>,
): Promise<AccountRow> {
  const { id: accountId } = await getAccount(caller, id);
  if (runtimeId !== undefined) await accounts.setRuntime(caller.store.db, accountId, runtimeId);
  return getAccount(caller, 'me');
}
