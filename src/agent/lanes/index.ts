/**
 * Where a run is carried out: light ones side by side in the probe processes, those with user code in a
 * process of their own, and API checks with scripts in both. Hides which of them a job needs. What a job
 * found leaves here without its secrets.
 */
export { classOf, Lanes } from './lanes.ts';
