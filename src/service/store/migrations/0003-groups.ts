import { sql, type Kysely } from 'kysely';

/** What checks share: groups, variables and snippets of an account, and its runtime. */
const statements = [
  sql`alter table account add column runtime_id text`,

  sql`create table check_group (
    id integer generated always as identity primary key,
    account_id uuid not null references account on delete cascade,
    name text not null,
    tags text[] not null,
    definition jsonb not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz)`,
  sql`create index check_group_account on check_group (account_id, created_at, id)`,

  sql`alter table check_def add column group_id integer references check_group`,
  sql`create index check_def_group on check_def (group_id) where group_id is not null`,

  sql`create table variable (
    account_id uuid not null references account on delete cascade,
    key text not null,
    value text not null,
    locked boolean not null,
    secret boolean not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz,
    primary key (account_id, key))`,

  sql`create table snippet (
    id integer generated always as identity primary key,
    account_id uuid not null references account on delete cascade,
    name text not null,
    script text not null,
    created_at timestamptz not null default now(),
    updated_at timestamptz,
    unique (account_id, name))`,
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const statement of statements) await statement.execute(db);
}
