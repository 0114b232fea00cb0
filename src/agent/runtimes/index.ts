/**
 * Finds the runtimes that are installed on this machine.
 * Placeholder until the room is there.
 */
export interface Runtime {
  id: string;
  node: string;
  modules: string;
  playwrightVersion: string;
  browsers: string;
  browserFolders: readonly string[];
  flags: readonly string[];
}
export const findRuntimes = (): readonly Runtime[] => [];
export const DEFAULT_RUNTIME = '2026.04';
