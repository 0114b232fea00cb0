/**
 * Runs tries in long-lived child processes, many at once in each. Hides how many processes there are,
 * their start, their replacement when they have grown or run long, what happens to the tries of one
 * that crashed or hangs (each is tried once more elsewhere; the one that was in two such processes is
 * reported), and the time limit that holds even when a probe does not obey.
 */
export { ProbePool, type PoolOptions } from './pool.ts';
export type { ProbeSetup } from './channel.ts';
