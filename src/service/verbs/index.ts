/**
 * What may be done with the service's resources: each verb authorises, decides and changes the store
 * in one transaction. Hides the rules (what refers to what, what an update keeps, which checks a
 * trigger means). Knows nothing of HTTP: a verb that will not do it throws a Refusal.
 */
export * from './accounts.ts';
export * from './assets.ts';
export * from './bundles.ts';
export type { Caller } from './caller.ts';
export * from './check-groups.ts';
export * from './check-results.ts';
export * from './check-sessions.ts';
export * from './checks.ts';
export * from './error-groups.ts';
export * from './private-locations.ts';
export { invalid, parse } from './problems.ts';
export * from './refusal.ts';
export { withoutSecrets } from './secrets.ts';
export * from './snippets.ts';
export * from './test-results.ts';
export { CommandTriggerInput, TestRunInput, TestTriggerInput } from './test-session-input.ts';
export * from './test-sessions.ts';
export * from './triggers.ts';
export * from './variables.ts';
