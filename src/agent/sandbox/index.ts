/**
 * Starts the agent's child processes and is the only place that can. Hides the walls around them: a
 * cleared environment, a session of their own, Node's permission system with what the program may read,
 * kernel limits set before the program begins, and what this machine lacks of that; how a job is watched,
 * and ended with everything that it started. A child talks over one channel (file descriptor 3); what a
 * probe prints is never passed on.
 */
export {
  startChild,
  type Child,
  type ChildExit,
  type ChildProgram,
  type JobLimits,
  type Permission,
} from './child.ts';
export type { Load, Scheduling } from './processes.ts';
export { hardenSelf } from './kernel.ts';
export { installedFiles } from './installed-files.ts';
export { canNestChromiumSandbox } from './nested-sandbox.ts';
export { requireWalls, sandboxReport, type SandboxReport } from './report.ts';
export type { Profile } from './profiles.ts';
export { letJobsPass } from './job-user.ts';
export { removeFolder } from './remove-folder.ts';
export { sweepMarkers } from './sweep.ts';
export type { Excess, Usage } from './watchdog.ts';
