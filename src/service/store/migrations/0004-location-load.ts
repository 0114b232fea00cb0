import { sql, type Kysely } from 'kysely';

/** How long the queue of each private location was, minute by minute. */
const statements = [
  sql`create table location_load (
    location_id uuid not null references private_location on delete cascade,
    at timestamptz not null,
    queued integer not null,
    oldest_seconds integer not null,
    primary key (location_id, at))`,
  // For the sampler, which asks whether a minute is written, and for retention.
  sql`create index location_load_at on location_load (at)`,
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const statement of statements) await statement.execute(db);
}
