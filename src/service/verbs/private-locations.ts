import { z } from 'zod';
import { httpAddress } from '../../checks/index.ts';
import { hashSecret, isUuid, maskSecret, newId, newSecret } from '../../kit/ids.ts';
import type { Db } from '../ports.ts';
import {
  loads,
  locations,
  transact,
  type ConnectedAgent,
  type LoadSample,
  type LocationKeyRow,
  type LocationRow,
} from '../store/index.ts';
import type { Caller } from './caller.ts';
import { notFound, Refusal } from './refusal.ts';

const MAX_SPAN_MS = 15 * 86_400_000;
const STEPS_SECONDS = [60, 300, 900];
/** A day of minutes, 15 days of quarters of an hour. */
const MAX_POINTS = 1440;

/** Two, so that a key can be replaced while agents use the other. */
const MAX_KEYS = 2;

const NOT_A_REGION =
  /^(?!(us(-gov)?|ap|ca|cn|eu|sa|af|me)-(central|(north|south)?(east|west)?)-\d+)[a-zA-Z0-9-]{1,30}$/;

export const LocationInput = z.strictObject({
  name: z.string().min(1, 'must not be empty').max(255),
  slugName: z
    .string()
    .regex(NOT_A_REGION, 'must be 1 to 30 letters, digits and hyphens, and not begin like a region code'),
  icon: z.string().max(255).default('location'),
  /** May carry a user name and password, and {{VARIABLES}}. */
  proxyUrl: httpAddress.nullable().default(null),
});

export const LocationChange = LocationInput.extend({
  icon: z.string().max(255),
  proxyUrl: httpAddress.nullable(),
}).partial();

/** A location with its keys and the agents that are connected now. */
export interface Location {
  row: LocationRow;
  keys: LocationKeyRow[];
  agents: ConnectedAgent[];
}

/** A key and its text, which is shown this once. */
export interface NewKey {
  row: LocationKeyRow;
  rawKey: string;
}

export async function listLocations(caller: Caller): Promise<Location[]> {
  return withParts(caller.store.db, await locations.listLocations(caller.store.db, caller.accountId));
}

export async function getLocation(caller: Caller, id: string): Promise<Location> {
  const { db } = caller.store;
  const [found] = await withParts(db, [await existing(db, caller, id)]);
  return found!;
}

export async function createLocation(
  caller: Caller,
  input: z.output<typeof LocationInput>,
): Promise<{ location: Location; key: NewKey }> {
  const id = newId();
  const key = await caller.store.db.transaction().execute(async (trx) => {
    const { name, slugName: slug, icon, proxyUrl: proxy_url } = input;
    const row = { id, account_id: caller.accountId, name, slug, icon, proxy_url };
    if (!(await locations.insertLocation(trx, row))) throw slugTaken(slug);
    return addKey(trx, id);
  });
  return { location: await getLocation(caller, id), key };
}

export async function updateLocation(
  caller: Caller,
  id: string,
  change: z.output<typeof LocationChange>,
): Promise<Location> {
  const renamed = await transact(caller.store.db, async (trx) => {
    const old = await existing(trx, caller, id, true);
    const slug = change.slugName ?? old.slug;
    if (slug !== old.slug) {
      await assertUnused(trx, caller, old.slug, 'slugName: cannot change');
      if (await locations.slugIsTaken(trx, caller.accountId, slug, id)) throw slugTaken(slug);
    }
    const { name = old.name, icon = old.icon, proxyUrl = old.proxy_url } = change;
    await locations.updateLocation(trx, id, { name, slug, icon, proxy_url: proxyUrl });
    return slug !== old.slug;
  });
  const location = await getLocation(caller, id);
  // Agents learn their location from the welcome, so they have to come again.
  if (renamed) for (const key of location.keys) caller.store.wake(`key:${key.id}`);
  return location;
}

export async function deleteLocation(caller: Caller, id: string): Promise<void> {
  const keys = await caller.store.db.transaction().execute(async (trx) => {
    const row = await existing(trx, caller, id, true);
    await assertUnused(trx, caller, row.slug, 'the private location cannot be deleted');
    const removed = await locations.keysOf(trx, [id]);
    await locations.deleteLocation(trx, id);
    return removed;
  });
  for (const key of keys) caller.store.wake(`key:${key.id}`);
}

export async function createKey(caller: Caller, locationId: string): Promise<NewKey> {
  return caller.store.db.transaction().execute(async (trx) => {
    await existing(trx, caller, locationId, true);
    const keys = await locations.keysOf(trx, [locationId]);
    if (keys.length >= MAX_KEYS) {
      throw new Refusal('conflict', `a private location has at most ${MAX_KEYS} keys; delete one first`);
    }
    return addKey(trx, locationId);
  });
}

/** Agents that use the key are cut off within a second. */
export async function deleteKey(caller: Caller, locationId: string, keyId: string): Promise<void> {
  const { db } = caller.store;
  await existing(db, caller, locationId);
  const gone = isUuid(keyId) && (await locations.deleteKey(db, locationId, keyId));
  if (!gone) throw notFound('key', keyId);
  caller.store.wake(`key:${keyId}`);
}

/**
 * The queue of the location over a window whose last moment may last a day: what was written each minute, and this moment where the
 * window holds it. A window of more than a day is told in steps, by the highest values of each.
 */
export async function locationLoad(
  caller: Caller,
  id: string,
  { from, to, lastsMs }: { from: Date; to: Date; lastsMs: number },
): Promise<LoadSample[]> {
  const { db } = caller.store;
  const location = await existing(db, caller, id);
  const end = new Date(to.getTime() + lastsMs);
  const spanMs = to.getTime() - from.getTime();
  if (end <= from) throw new Refusal('invalid', 'to: must be later than from');
  if (spanMs >= MAX_SPAN_MS) throw new Refusal('invalid', 'to: must be less than 15 days after from');
  const stepSeconds = STEPS_SECONDS.find((step) => spanMs / 1000 / step <= MAX_POINTS)!;
  const past = await loads.history(db, location.id, { from, to: end, stepSeconds });
  const now = await loads.sampleNow(db, location);
  return now.at >= from && now.at < end ? [...past, now] : past;
}

async function existing(db: Db, caller: Caller, id: string, lock = false): Promise<LocationRow> {
  const row = isUuid(id) ? await locations.findLocation(db, caller.accountId, id, lock) : undefined;
  if (row === undefined) throw notFound('private location', id);
  return row;
}

async function withParts(db: Db, rows: LocationRow[]): Promise<Location[]> {
  const ids = rows.map((row) => row.id);
  const keys = Map.groupBy(await locations.keysOf(db, ids), (key) => key.location_id);
  const agents = Map.groupBy(await locations.connectedAgents(db, ids), (agent) => agent.locationId);
  return rows.map((row) => ({ row, keys: keys.get(row.id) ?? [], agents: agents.get(row.id) ?? [] }));
}

async function addKey(db: Db, locationId: string): Promise<NewKey> {
  const rawKey = newSecret('pl');
  const row = await locations.insertKey(db, {
    id: newId(),
    location_id: locationId,
    hash: hashSecret(rawKey),
    masked: maskSecret(rawKey),
  });
  return { row, rawKey };
}

function slugTaken(slug: string): Refusal {
  return new Refusal('conflict', `slugName: ${JSON.stringify(slug)} is taken by another private location`);
}

async function assertUnused(db: Db, caller: Caller, slug: string, what: string): Promise<void> {
  const users = await locations.usersOf(db, caller.accountId, slug);
  if (users.length === 0) return;
  const named = users
    .slice(0, 3)
    .map((name) => JSON.stringify(name))
    .join(', ');
  const more = users.length > 3 ? ' and others' : '';
  throw new Refusal('conflict', `${what} while checks use it: ${named}${more}`);
}
