/**
 * Runs the code of users: browser and multistep checks, and the scripts of API checks. Hides the processes
 * behind the walls (warm before their job comes, one job each, never used again), their folders and files,
 * what they may take of time, memory, processes, disk and words, and the reading of what they say, which
 * user code can forge: nothing of it is believed further than its own result, and nothing leaves without
 * the scrubber. `/script.js` in a message is the user's file; no path of this machine is shown.
 */
export { resultIdOf } from './definition.ts';
export { giveAuthorities, sweepWorkFolder } from './job-folder.ts';
export { JobLog } from './job-log.ts';
export { scrubbedReport } from './report.ts';
export { ScriptRoom, type ScriptRoomOptions } from './room.ts';
export { startErrorIn } from './start-error.ts';
export { COMPILE_CACHE_ENTRY, type ScriptKind } from './program.ts';
export type * from './protocol.ts';
