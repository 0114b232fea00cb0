/**
 * Runs whole Playwright projects. Hides where their archive, their dependencies, their Node or Bun, their
 * package manager and their browsers come from and what of it is kept for the next run; how a project is
 * recognised; what is added to its config without changing what it means; and how the tests are heard of one
 * by one, so that a suite that is cut keeps what it had. All code of a project runs within the walls of one
 * job; what jobs share is the agent's own, and no job can change it.
 */
export { SuiteRoom, type SuiteRoomOptions } from './room.ts';
export {
  installTool,
  INSTALLED_TOOLS,
  isToolInstalled,
  MORE_TOOLS,
  USUAL_TOOLS,
  type Tool,
} from './installed-tools.ts';
