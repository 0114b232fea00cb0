/**
 * What a check is: one folder per type (its fields, its runner, its tests), the fields and the
 * verdict rules that types share, and the registry. Agent and service both build on this floor;
 * it knows neither. Adding a type is one folder and one line in registry.ts.
 */
export { assertionFields, GENERAL, httpAddress, patternProblems } from './assertion-fields.ts';
export * from './check.ts';
export * from './check-type.ts';
export { checkTypes, findCheckType } from './registry.ts';
export { BUNDLE_KEY, SuiteJob } from './suite-fields.ts';
export { boundedError, boundedTests, boundedText, MAX_SUITE_ERRORS } from './suite-bounds.ts';
export { mergeSuites } from './suite-merge.ts';
export * from './suite-result.ts';
