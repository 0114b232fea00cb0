import { sql, type Kysely } from 'kysely';

/** Links that start a check, or the checks of a group, for whoever knows them. */
const statements = [
  sql`create table check_trigger (
    id integer generated always as identity primary key,
    account_id uuid not null references account on delete cascade,
    token text not null unique,
    check_id uuid unique references check_def on delete cascade,
    group_id integer unique references check_group on delete cascade,
    created_at timestamptz not null default now(),
    called_at timestamptz)`,
];

export async function up(db: Kysely<never>): Promise<void> {
  for (const statement of statements) await statement.execute(db);
}
