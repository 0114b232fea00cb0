/**
 * Runs long-lived loops as one group: the first that fails stops the others, and the promise settles
 * only when all have returned. A loop is a function that returns when its signal aborts.
 *
 * @throws the first failure, after every loop has ended
 */
export async function supervise(
  loops: readonly ((signal: AbortSignal) => Promise<void>)[],
  stop: AbortSignal,
): Promise<void> {
  const group = new AbortController();
  const signal = AbortSignal.any([stop, group.signal]);
  const failures: unknown[] = [];
  await Promise.all(
    loops.map(async (loop) => {
      try {
        await loop(signal);
      } catch (error) {
        // A loop that ends by throwing the stop reason has obeyed, not failed.
        if (signal.aborted && error === signal.reason) return;
        failures.push(error);
        group.abort(error);
      }
    }),
  );
  if (failures.length > 0) throw failures[0];
}
