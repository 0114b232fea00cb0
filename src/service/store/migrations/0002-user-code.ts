import { sql, type Kysely } from 'kysely';

/**
 * Runs of three classes, each a queue of its own, and the files that belong to results. Artifacts are
 * kept by day as results are, so that their retention is a DROP too.
 */
const statements = [
  sql`alter table run add column job_class smallint not null default 0, add column run_source text`,
  sql`drop index run_claim`,
  sql`create index run_claim on run (account_id, location, job_class, lane, not_before, id) where state = 0`,

  sql`create table artifact (
    id uuid not null,
    scheduled_at timestamptz not null,
    result_id uuid not null,
    account_id uuid not null,
    location text not null,
    name text not null,
    kind text not null,
    content_type text not null,
    size bigint not null,
    sha256 text,
    state text not null,
    reason text,
    position integer not null,
    touched_at timestamptz not null default now(),
    primary key (id, scheduled_at)) partition by range (scheduled_at)`,
  sql`create index artifact_result on artifact (result_id)`,
  sql`create index artifact_pending on artifact (touched_at) where state = 'pending'`,
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const statement of statements) await statement.execute(db);
}
