import { sql } from 'kysely';
import type { Db } from '../../ports.ts';
import { ClassNumber } from '../schema.ts';
import type { LocationRow } from './locations.ts';

/** Agents of one version that are connected to a location. */
export interface Fleet {
  version: string;
  agents: number;
  slots: number;
}

/** What a private location has to do at this moment, and with what. */
export interface LocationLoad {
  slug: string;
  /** Runs that are due and that no agent has. */
  queued: number;
  /** How long the oldest of them has been due; 0 when there is none. */
  oldestSeconds: number;
  /** Runs that agents have. */
  inFlight: number;
  /** Those of both that are suites, which take minutes and most of a machine each. */
  suitesQueued: number;
  suitesInFlight: number;
  lastSeen: Date | null;
  fleets: Fleet[];
}

/** A moment of a location's queue. */
export interface LoadSample {
  at: Date;
  queued: number;
  oldestSeconds: number;
}

const SUITES = sql`count(*) filter (where job_class = ${sql.lit(ClassNumber.suite)})::int`;

/** Over the partial index of what waits, so that its cost follows the queue and not the table. */
const QUEUED = sql`
  select account_id, location, count(*)::int as runs, ${SUITES} as suites,
    greatest(0, extract(epoch from now() - min(not_before)))::float8 as oldest
  from run where state = 0 and not_before <= now() and expires_at > now()
  group by account_id, location`;

/** All locations. Accounts may use the same slug: then each has an entry. */
export async function loadsNow(db: Db): Promise<LocationLoad[]> {
  const { rows } = await sql<LocationLoad>`
    with queued as (${QUEUED}),
    held as (
      select account_id, location, count(*)::int as runs, ${SUITES} as suites from run where state in (1, 2)
      group by account_id, location
    ), fleet as (
      select location_id, version, count(*)::int as agents, sum(slots)::int as slots, max(last_seen) as seen
      from agent where session_id is not null group by location_id, version
    ), fleets as (
      select location_id, max(seen) as seen,
        json_agg(json_build_object('version', version, 'agents', agents, 'slots', slots)) as list
      from fleet group by location_id
    )
    select l.slug, coalesce(q.runs, 0) as queued, coalesce(q.oldest, 0) as "oldestSeconds",
      coalesce(h.runs, 0) as "inFlight",
      coalesce(q.suites, 0) as "suitesQueued", coalesce(h.suites, 0) as "suitesInFlight", greatest(l.last_seen, f.seen) as "lastSeen",
      coalesce(f.list, '[]') as fleets
    from private_location l
    left join queued q on q.account_id = l.account_id and q.location = l.slug
    left join held h on h.account_id = l.account_id and h.location = l.slug
    left join fleets f on f.location_id = l.id`.execute(db);
  return rows;
}

/** One location's queue at this moment. */
export async function sampleNow(db: Db, { account_id, slug }: LocationRow): Promise<LoadSample> {
  const { rows } = await sql<LoadSample>`
    select now() as at, count(*)::int as queued,
      greatest(0, coalesce(extract(epoch from now() - min(not_before)), 0))::float8 as "oldestSeconds"
    from run where state = 0 and not_before <= now() and expires_at > now()
      and account_id = ${account_id} and location = ${slug}`.execute(db);
  return rows[0]!;
}

/** Writes this minute for all locations, unless another process has. */
export async function recordSamples(db: Db): Promise<void> {
  await sql`
    with queued as (${QUEUED})
    insert into location_load (location_id, at, queued, oldest_seconds)
    select l.id, date_trunc('minute', now()), coalesce(q.runs, 0), coalesce(round(q.oldest), 0)
    from private_location l
    left join queued q on q.account_id = l.account_id and q.location = l.slug
    where not exists (select 1 from location_load where at = date_trunc('minute', now()))
    on conflict do nothing`.execute(db);
}

/** Removes at most `limit` old samples. @returns how many */
export async function removeSamples(db: Db, olderThanDays: number, limit: number): Promise<number> {
  const { rows } = await sql<{ at: Date }>`
    delete from location_load where (location_id, at) in (
      select location_id, at from location_load
      where at < now() - ${olderThanDays}::float8 * interval '1 day' order by at limit ${limit})
    returning at`.execute(db);
  return rows.length;
}

/** The samples of [from, to), oldest first: the highest values of each `stepSeconds`. */
export async function history(
  db: Db,
  locationId: string,
  { from, to, stepSeconds }: { from: Date; to: Date; stepSeconds: number },
): Promise<LoadSample[]> {
  const { rows } = await sql<LoadSample>`
    select to_timestamp(floor(extract(epoch from at) / ${stepSeconds}::int) * ${stepSeconds}::int) as at,
      max(queued) as queued, max(oldest_seconds) as "oldestSeconds"
    from location_load
    where location_id = ${locationId} and at >= ${from} and at < ${to}
    group by 1 order by 1`.execute(db);
  return rows;
}
