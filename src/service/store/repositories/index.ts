/**
 * The SQL of the interface's resources, one module per entity: accounts and their keys, private
 * locations with their agents and their load, check definitions and what they share (groups, variables, snippets),
 * sessions, results and their artifacts. Rows in, rows out; verbs decide what they mean.
 * The queue's own writes (runs, sessions, results) are not here.
 */
export * as accounts from './accounts.ts';
export * as agents from './agents.ts';
export * as artifacts from './artifacts.ts';
export * as bundles from './bundles.ts';
export * as checks from './checks.ts';
export * as errorGroups from './error-groups.ts';
export * as groups from './groups.ts';
export * as loads from './loads.ts';
export * as locations from './locations.ts';
export * as results from './results.ts';
export * as runLogs from './run-logs.ts';
export * as sessions from './sessions.ts';
export * as snippets from './snippets.ts';
export * as testSessions from './test-sessions.ts';
export * as triggers from './triggers.ts';
export * as variables from './variables.ts';
export type { AccountRow } from './accounts.ts';
export type { KeyHolder } from './agents.ts';
export { artifactId, partArtifactName, wholeResultId, type ArtifactRow } from './artifacts.ts';
export { bundleKey, type BundleRow } from './bundles.ts';
export type { CheckFilter, CheckRow, CheckStatusRow } from './checks.ts';
export type { ErrorGroupRow } from './error-groups.ts';
export type { GroupFilter, GroupRow } from './groups.ts';
export type { LoadSample, LocationLoad } from './loads.ts';
export type { ConnectedAgent, LocationKeyRow, LocationRow } from './locations.ts';
export type { ResultFilter, ResultPosition, ResultRow } from './results.ts';
export type { RunLogRow } from './run-logs.ts';
export { sequenceIdOf, type SessionResult, type SessionRow, type SessionRun } from './sessions.ts';
export type { SnippetRow } from './snippets.ts';
export type { TestSessionFilter, TestSessionRow } from './test-sessions.ts';
export type { TriggerRow } from './triggers.ts';
export type { VariableRow } from './variables.ts';
