/**
 * The runtimes of this machine: a Node, the packages that user code may require and Playwright's browsers.
 * Hides where they lie (`runtimes/` beside the package), which are offered by this version, and how a
 * finished installation is told from a half one: by a record that the installer writes last and that
 * names what was asked for.
 */
export { DEFAULT_RUNTIME } from '../../checks/index.ts';
export {
  layoutProgram,
  MACHINE_BROWSERS,
  MACHINE_FOLDERS,
  MACHINE_PACKAGES,
  MACHINE_PROGRAMS,
  missingPrograms,
  type MachineBrowser,
} from './machine-browsers.ts';
export {
  findRuntimes,
  nodeOf,
  offeredRuntimes,
  readRecord,
  runtimePaths,
  RUNTIMES_FOLDER,
  writeRecord,
  type Runtime,
  type RuntimePaths,
  type RuntimeRecord,
} from './runtimes.ts';
