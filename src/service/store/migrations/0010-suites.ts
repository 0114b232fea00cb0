import { sql, type Kysely } from 'kysely';

/** Archives of suites, suites in parts, what they print, test sessions, and errors that come again. */
const statements = [
  sql`create table bundle (
    account_id uuid not null references account on delete cascade,
    sha256 text not null,
    format text not null,
    size bigint not null,
    blob_id uuid not null,
    created_at timestamptz not null default now(),
    used_at timestamptz not null default now(),
    primary key (account_id, sha256))`,
  sql`create index bundle_used on bundle (used_at)`,
  sql`create table loose_blob (
    blob_id uuid primary key,
    since timestamptz not null default now())`,

  sql`create table test_session (
    id uuid primary key,
    account_id uuid not null references account on delete cascade,
    name text not null,
    project_id text,
    provider text not null,
    run_source text not null,
    run_location text not null,
    recorded boolean not null,
    metadata jsonb not null,
    created_at timestamptz not null default now())`,
  sql`create index test_session_list on test_session (account_id, created_at desc, id desc)`,

  sql`alter table check_session add column test_session_id uuid, add column tested_check_id uuid`,
  sql`create index check_session_test on check_session (test_session_id) where test_session_id is not null`,
  sql`alter table run add column tested_check_id uuid, add column whole_id uuid, add column shard smallint`,
  sql`create index run_whole on run (whole_id) where whole_id is not null`,

  sql`create table run_part (
    run_id bigint primary key,
    whole_id uuid not null,
    result_id uuid not null,
    shard smallint not null,
    body jsonb not null,
    created_at timestamptz not null default now())`,
  sql`create index run_part_result on run_part (result_id)`,
  sql`create index run_part_whole on run_part (whole_id)`,
  sql`create index run_part_created on run_part using brin (created_at)`,

  sql`create table run_log (
    id bigint generated always as identity primary key,
    session_id uuid not null,
    run_id bigint not null,
    shard smallint,
    text text not null,
    created_at timestamptz not null default now())`,
  sql`create index run_log_session on run_log (session_id, id)`,
  sql`create index run_log_run on run_log (run_id, id)`,
  sql`create index run_log_created on run_log using brin (created_at)`,

  sql`create table error_group (
    id uuid primary key,
    account_id uuid not null references account on delete cascade,
    check_id uuid,
    project_id text,
    error_hash text not null,
    raw_error_message text,
    cleaned_error_message text not null,
    first_seen timestamptz not null default now(),
    last_seen timestamptz not null default now(),
    archived_until_next_event boolean not null default false,
    archived_for_ever boolean not null default false,
    environments text[] not null default '{}',
    pwt_metadata jsonb not null default '[]')`,
  sql`create index error_group_check on error_group (check_id, last_seen desc) where check_id is not null`,
  sql`create index error_group_account on error_group (account_id, last_seen desc)`,
  sql`alter table check_result add column error_group_ids uuid[] not null default '{}'`,
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const statement of statements) await statement.execute(db);
}
