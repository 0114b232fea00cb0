import type { ColumnType, Generated } from 'kysely';

/** Rows as kysely sees them. The SQL that makes them is in migrations/. */
type Stamp = ColumnType<Date, Date | string | undefined, Date | string>;
type NullableStamp = ColumnType<Date | null, Date | string | null | undefined, Date | string | null>;
/** A 64-bit number below 2^53; both drivers are set to return a JS number. */
type BigId = Generated<number>;
type Json<T> = ColumnType<T, string, string>;

export interface AccountTable {
  id: string;
  name: string;
  /** For checks that choose none, nor their group; null leaves it to the service. */
  runtime_id: string | null;
  created_at: Generated<Date>;
}

export interface ApiKeyTable {
  id: string;
  account_id: string;
  name: string;
  hash: Buffer;
  masked: string;
  created_at: Generated<Date>;
  last_used_at: NullableStamp;
}

export interface PrivateLocationTable {
  id: string;
  account_id: string;
  name: string;
  slug: string;
  icon: string;
  proxy_url: string | null;
  last_seen: NullableStamp;
  created_at: Generated<Date>;
  updated_at: NullableStamp;
}

export interface PrivateLocationKeyTable {
  id: string;
  location_id: string;
  hash: Buffer;
  masked: string;
  created_at: Generated<Date>;
  updated_at: NullableStamp;
  last_used_at: NullableStamp;
}

/** One row per agentId that ever said hello; `session_id` is null while it is not connected. */
export interface AgentTable {
  id: string;
  location_id: string;
  /** Key of the present session: its removal ends the session. */
  key_id: string | null;
  instance_id: string;
  session_id: string | null;
  /** Rises at each hello of this agent. */
  epoch: number;
  version: string;
  check_types: string[];
  slots: number;
  free: number;
  draining: boolean;
  connected_at: NullableStamp;
  last_seen: Stamp;
}

export interface CheckTable {
  id: string;
  account_id: string;
  type: string;
  name: string;
  /** False also while its group is not activated. */
  activated: boolean;
  tags: string[];
  /** Slugs and region codes, private locations first: those of the group where it has any. */
  run_locations: string[];
  group_id: number | null;
  interval_ms: number;
  /** The parsed definition: CommonFields and the type's own fields. */
  definition: Json<Record<string, unknown>>;
  /** When the scheduler starts it next; null while not activated. */
  next_at: NullableStamp;
  /** The session of the last tick: while it is not over, ticks are skipped. */
  last_session_id: string | null;
  /** Ticks so far: chooses the location in round-robin. */
  ticks: Generated<number>;
  created_at: Generated<Date>;
  updated_at: NullableStamp;
}

export interface CheckGroupTable {
  id: Generated<number>;
  account_id: string;
  name: string;
  tags: string[];
  /** The parsed GroupFields. */
  definition: Json<Record<string, unknown>>;
  created_at: Generated<Date>;
  updated_at: NullableStamp;
}

/** A variable of all checks of the account. */
export interface VariableTable {
  account_id: string;
  key: string;
  value: string;
  locked: boolean;
  secret: boolean;
  created_at: Generated<Date>;
  updated_at: NullableStamp;
}

/** Code that scripts require by name, or that a check has as its setup or teardown. */
export interface SnippetTable {
  id: Generated<number>;
  account_id: string;
  name: string;
  script: string;
  created_at: Generated<Date>;
  updated_at: NullableStamp;
}

export interface CheckSessionTable {
  id: string;
  account_id: string;
  check_id: string;
  check_type: string;
  name: string;
  run_source: string | null;
  status: Generated<string>;
  run_locations: string[];
  /** Why a part of it timed out: see RunTable.end_reason. Kept here because run rows go after two days. */
  end_reason: string | null;
  /** The scheduled_at of its runs and results. */
  started_at: Stamp;
  /** Of a test session; its check_id is nobody's then, so that no check counts what it finds. */
  test_session_id: string | null;
  /** The check that a test session runs; null for one that is stored nowhere. */
  tested_check_id: string | null;
  stopped_at: NullableStamp;
}

/** Run states. Terminal from `done` on. */
export const RunState = {
  queued: 0,
  offered: 1,
  running: 2,
  done: 3,
  cancelled: 4,
  expired: 5,
  poison: 6,
} as const;

/** How JobClass is stored. */
export const ClassNumber = { light: 0, script: 1, browser: 2, suite: 3 } as const;

/**
 * The queue is this table: one row per check, location and session, deleted two days after its end.
 * Only the queue room writes it.
 */
export interface RunTable {
  id: BigId;
  sequence_id: string;
  session_id: string;
  check_id: string;
  account_id: string;
  /** Slug of a private location or a region code. */
  location: string;
  check_type: string;
  /** 0 on demand, 1 scheduled, 2 catch-up. */
  lane: number;
  /** What it needs of an agent: see ClassNumber. */
  job_class: Generated<number>;
  run_source: string | null;
  state: Generated<number>;
  token: Generated<number>;
  deliveries: Generated<number>;
  /** Tries that have been recorded as ATTEMPT. */
  attempt: Generated<number>;
  scheduled_at: Stamp;
  /** When the first try began; the retry budget counts from here. */
  first_started_at: NullableStamp;
  not_before: Stamp;
  expires_at: Stamp;
  agent_id: string | null;
  lease_until: NullableStamp;
  hard_until: NullableStamp;
  cancel_requested: Generated<boolean>;
  /** See CheckSessionTable. */
  tested_check_id: string | null;
  /** The sequence that is shown, of a run that is one part of a suite. */
  whole_id: string | null;
  /** Number of the part, from 1. */
  shard: number | null;
  excluded_agents: Generated<string[]>;
  timeout_ms: number;
  /** How it ended: PASSED, DEGRADED, FAILED, TIMED_OUT, CANCELLED; null before. */
  outcome: string | null;
  /** Why it expired: NO_AGENT_CONNECTED, ALL_AGENTS_BUSY, NO_CAPABLE_AGENT, LOCATION_NOT_SERVED. */
  end_reason: string | null;
  finished_at: NullableStamp;
  /** The definition as it was when the run was made; emptied when the run ends. */
  payload: Json<Record<string, unknown>>;
}

/** Partitioned by day on scheduled_at, which also serves to find the partition. Primary key (id, scheduled_at). */
export interface CheckResultTable {
  id: string;
  scheduled_at: Stamp;
  account_id: string;
  check_id: string;
  check_type: string;
  name: string;
  session_id: string;
  run_id: number;
  sequence_id: string;
  location: string;
  result_type: 'FINAL' | 'ATTEMPT';
  attempts: number;
  has_failures: boolean;
  has_errors: boolean;
  is_degraded: boolean;
  is_cancelled: boolean;
  over_max_response_time: boolean;
  response_time: number | null;
  status_code: number | null;
  phases: Json<Record<string, number>>;
  started_at: Stamp;
  stopped_at: Stamp;
  error_group_ids: Generated<string[]>;
  created_at: Generated<Date>;
}

/** The result's detail, apart from the row that lists and roll-ups read. Same partitions. */
export interface CheckResultDetailTable {
  result_id: string;
  scheduled_at: Stamp;
  /** errors, measured, and the type's result object under its name in the interface. */
  detail: Json<Record<string, unknown>>;
}

/**
 * One row per entry of a result's manifest, stored with the result; the bytes are in the blob store.
 * `refused`: never to be had, `reason` says why. Partitions as those of results.
 */
export interface ArtifactTable {
  /** A function of result and name: artifactId() in repositories/artifacts.ts. */
  id: string;
  scheduled_at: Stamp;
  result_id: string;
  account_id: string;
  location: string;
  name: string;
  kind: string;
  content_type: string;
  size: number;
  sha256: string | null;
  state: 'pending' | 'refused' | 'stored';
  reason: string | null;
  /** Place in the manifest. */
  position: number;
  /** When its upload moved last. */
  touched_at: Generated<Date>;
}

/** Outcomes that came after another one was counted. Kept for inspection, never counted. */
export interface ResultLateTable {
  id: string;
  run_id: number;
  session_id: string | null;
  received_at: Generated<Date>;
  body: Json<Record<string, unknown>>;
}

/** The queue of a location at the start of a minute; kept for 15 days. */
export interface LocationLoadTable {
  location_id: string;
  at: Stamp;
  queued: number;
  /** How long its oldest run had been due. */
  oldest_seconds: number;
}

/** An uploaded project of a suite. Unused, it goes a day after `used_at`; see repositories/bundles.ts. */
export interface BundleTable {
  account_id: string;
  /** Hex. */
  sha256: string;
  format: 'gz' | 'zst';
  size: number;
  blob_id: string;
  created_at: Generated<Date>;
  used_at: Generated<Date>;
}

/** Bytes that no bundle has: of an upload that has not ended, or of a bundle that is gone. */
export interface LooseBlobTable {
  blob_id: string;
  since: Generated<Date>;
}

/** Its checks' sessions say how it goes. */
export interface TestSessionTable {
  id: string;
  account_id: string;
  name: string;
  project_id: string | null;
  provider: string;
  run_source: string;
  /** Slug of a private location or a region code. */
  run_location: string;
  /** False: in no list, and gone after a day. */
  recorded: boolean;
  /** Environment and commit, as the caller gave them. */
  metadata: Json<Record<string, unknown>>;
  created_at: Generated<Date>;
}

/** The result of one part of a suite, until all are here. */
export interface RunPartTable {
  run_id: number;
  whole_id: string;
  /** As its agent calls it: its artifacts come under this name. */
  result_id: string;
  /** From 1. */
  shard: number;
  body: Json<Record<string, unknown>>;
  created_at: Generated<Date>;
}

/** What a suite printed while somebody read along; the last of each run, for some hours. */
export interface RunLogTable {
  id: BigId;
  session_id: string;
  run_id: number;
  /** Number of the part, from 1; null of a suite in one piece. */
  shard: number | null;
  text: string;
  created_at: Generated<Date>;
}

/** One error however often it came: of a check, or of the test sessions of a project. */
export interface ErrorGroupTable {
  /** A function of check or project and hash. */
  id: string;
  account_id: string;
  /** Null for test sessions. */
  check_id: string | null;
  project_id: string | null;
  error_hash: string;
  raw_error_message: string | null;
  cleaned_error_message: string;
  first_seen: Generated<Date>;
  last_seen: Generated<Date>;
  archived_until_next_event: Generated<boolean>;
  archived_for_ever: Generated<boolean>;
  environments: Generated<string[]>;
  /** The tests that had it: projectName, testFile, testTitle, suitePath. */
  pwt_metadata: Json<Record<string, unknown>[]>;
}

/** A link that starts a check, or the checks of a group: one of the two is named. */
export interface CheckTriggerTable {
  id: Generated<number>;
  account_id: string;
  token: string;
  check_id: string | null;
  group_id: number | null;
  created_at: Generated<Date>;
  called_at: NullableStamp;
}

export interface Database {
  account: AccountTable;
  api_key: ApiKeyTable;
  private_location: PrivateLocationTable;
  private_location_key: PrivateLocationKeyTable;
  agent: AgentTable;
  check_def: CheckTable;
  check_group: CheckGroupTable;
  variable: VariableTable;
  snippet: SnippetTable;
  check_session: CheckSessionTable;
  run: RunTable;
  check_result: CheckResultTable;
  check_result_detail: CheckResultDetailTable;
  artifact: ArtifactTable;
  result_late: ResultLateTable;
  location_load: LocationLoadTable;
  bundle: BundleTable;
  loose_blob: LooseBlobTable;
  test_session: TestSessionTable;
  run_part: RunPartTable;
  run_log: RunLogTable;
  error_group: ErrorGroupTable;
  check_trigger: CheckTriggerTable;
}
