/**
 * Which targets the owner of this agent lets it reach: BLOCKED_TARGETS, ALLOWED_TARGETS, and what clouds
 * keep at well-known addresses for their machines, which is closed unless opened by name. Hides the
 * grammar of the entries, every spelling in which one address can be written inside another, and the
 * order of the rules. What is judged is the address that is about to be connected to, so a name that
 * changes its answer gains nothing.
 */
export { OPEN_POLICY, parsePolicy } from './policy.ts';
export type { Target, TargetPolicy } from './policy.ts';
export { PolicyError } from './entry.ts';
