/**
 * Starts the agent's child processes and is the only place that can. Hides the walls around them: a
 * cleared environment, a session of their own, Node's permission system with what the program may read,
 * kernel limits set before the program begins, and what this machine lacks of that. A child talks over
 * one channel (file descriptor 3) and nothing else; what it prints is never passed on.
 */
export { startChild, type Child, type ChildExit, type ChildProgram } from './child.ts';
export { installedFiles } from './installed-files.ts';
export { missingWalls, requireWalls } from './limits.ts';
