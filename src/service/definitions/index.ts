/**
 * What a check is when it runs: its own definition with what its group, its account and its snippets add.
 * Hides which of them wins where. Everything that starts runs asks here, so that an agent needs nothing
 * but its job, and a run under way keeps the definition that it began with.
 */
export { effectiveDefinitions, type CheckToRun, type DefinitionOf } from './effective.ts';
export { GroupFields, type Group } from './group-fields.ts';
export { inherited, placesOf, withGroup } from './inheritance.ts';
export { oversize } from './size.ts';
