/**
 * The wire between agent and service: jobs, control messages, results and the routes they travel on.
 * Knows nothing of check types and nothing of either program. A change here needs a golden file in
 * test/contract/golden; golden files are added, never edited.
 */
export * from './artifacts.ts';
export * from './job.ts';
export * from './messages.ts';
export * from './results.ts';
export * from './routes.ts';
export * from './suites.ts';
