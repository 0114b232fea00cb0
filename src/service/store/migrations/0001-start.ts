import { sql, type Kysely } from 'kysely';

/**
 * Row options. Hot tables keep room on each page, and are vacuumed by count and at full speed: the
 * default of a fifth of the table once a minute let the queue grow to 108 MB after 200,000 jobs.
 */
const HOT =
  sql.raw(`with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000, autovacuum_vacuum_cost_delay = 0)`);

const statements = [
  sql`create table account (
    id uuid primary key,
    name text not null,
    created_at timestamptz not null default now())`,

  sql`create table api_key (
    id uuid primary key,
    account_id uuid not null references account on delete cascade,
    name text not null,
    hash bytea not null unique,
    masked text not null,
    created_at timestamptz not null default now(),
    last_used_at timestamptz)`,
  sql`create index api_key_account on api_key (account_id)`,

  sql`create table private_location (
    id uuid primary key,
    account_id uuid not null references account on delete cascade,
    name text not null,
    slug text not null,
    icon text not null,
    proxy_url text,
    last_seen timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz,
    unique (account_id, slug))`,

  sql`create table private_location_key (
    id uuid primary key,
    location_id uuid not null references private_location on delete cascade,
    hash bytea not null unique,
    masked text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz,
    last_used_at timestamptz)`,
  sql`create index private_location_key_location on private_location_key (location_id)`,

  sql`create table agent (
    id uuid primary key,
    location_id uuid not null references private_location on delete cascade,
    key_id uuid,
    instance_id uuid not null,
    session_id uuid,
    epoch integer not null,
    version text not null,
    check_types text[] not null,
    slots integer not null,
    free integer not null,
    draining boolean not null,
    connected_at timestamptz,
    last_seen timestamptz not null default now()) ${HOT}`,
  sql`create index agent_location on agent (location_id)`,

  sql`create table check_def (
    id uuid primary key,
    account_id uuid not null references account on delete cascade,
    type text not null,
    name text not null,
    activated boolean not null,
    tags text[] not null,
    run_locations text[] not null,
    interval_ms integer not null,
    definition jsonb not null,
    next_at timestamptz,
    last_session_id uuid,
    ticks bigint not null default 0,
    created_at timestamptz not null default now(),
    updated_at timestamptz) ${HOT}`,
  sql`create index check_def_due on check_def (next_at) where next_at is not null`,
  sql`create index check_def_account on check_def (account_id, created_at, id)`,

  sql`create table check_session (
    id uuid primary key,
    account_id uuid not null,
    check_id uuid not null,
    check_type text not null,
    name text not null,
    run_source text,
    status text not null default 'STARTED',
    run_locations text[] not null,
    end_reason text,
    started_at timestamptz not null,
    stopped_at timestamptz)
    with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0)`,
  sql`create index check_session_started on check_session using brin (started_at)`,

  sql`create table run (
    id bigint generated always as identity primary key,
    sequence_id uuid not null,
    session_id uuid not null,
    check_id uuid not null,
    account_id uuid not null,
    location text not null,
    check_type text not null,
    lane smallint not null,
    state smallint not null default 0,
    token integer not null default 0,
    deliveries smallint not null default 0,
    attempt smallint not null default 0,
    scheduled_at timestamptz not null,
    first_started_at timestamptz,
    not_before timestamptz not null,
    expires_at timestamptz not null,
    agent_id uuid,
    lease_until timestamptz,
    hard_until timestamptz,
    cancel_requested boolean not null default false,
    excluded_agents uuid[] not null default '{}',
    timeout_ms integer not null,
    outcome text,
    end_reason text,
    finished_at timestamptz,
    payload jsonb not null,
    unique (session_id, sequence_id)) ${HOT}`,
  sql`create index run_claim on run (account_id, location, lane, not_before, id) where state = 0`,
  sql`create index run_expiry on run (expires_at) where state = 0`,
  // Without lease_until, so that a renewal touches no index; the reaper reads all that is leased.
  sql`create index run_leased on run (agent_id) where state in (1, 2)`,

  sql`create table check_result (
    id uuid not null,
    scheduled_at timestamptz not null,
    account_id uuid not null,
    check_id uuid not null,
    check_type text not null,
    name text not null,
    session_id uuid not null,
    run_id bigint not null,
    sequence_id uuid not null,
    location text not null,
    result_type text not null,
    attempts smallint not null,
    has_failures boolean not null,
    has_errors boolean not null,
    is_degraded boolean not null,
    is_cancelled boolean not null,
    over_max_response_time boolean not null,
    response_time double precision,
    status_code integer,
    phases jsonb not null,
    started_at timestamptz not null,
    stopped_at timestamptz not null,
    created_at timestamptz not null default now(),
    primary key (id, scheduled_at)) partition by range (scheduled_at)`,
  sql`create index check_result_list on check_result (check_id, started_at desc, id desc)`,
  sql`create index check_result_session on check_result (session_id)`,

  sql`create table check_result_detail (
    result_id uuid not null,
    scheduled_at timestamptz not null,
    detail jsonb not null,
    primary key (result_id, scheduled_at)) partition by range (scheduled_at)`,

  sql`create table result_late (
    id uuid primary key,
    run_id bigint not null,
    session_id uuid,
    received_at timestamptz not null default now(),
    body jsonb not null)`,
  sql`create index result_late_session on result_late (session_id)`,
  sql`create index result_late_received on result_late using brin (received_at)`,
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const statement of statements) await statement.execute(db);
}
