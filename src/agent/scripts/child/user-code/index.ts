/**
 * What every process of user code has: the files of a check as modules of any syntax, the runtime's packages,
 * the variables of the run as process.env, a console whose lines are the job's log, words for what was
 * thrown and where, and notice of calls that end the process. Hides Node's module loading, stack frames,
 * and every path of this machine.
 */
export { namingWalls, Unusable } from './errors.ts';
export { OWN_FOLDER, UserFiles, type Place } from './files.ts';
export { resources, untilIdle } from './idle.ts';
export type { Printer } from './print.ts';
export { UserCode } from './user-code.ts';
