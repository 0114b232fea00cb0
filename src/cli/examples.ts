import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { readState, writeState } from './credentials.ts';
import { demoChecks, type DemoCheck } from './demo-checks.ts';
import { startDemoTarget, type DemoTarget } from './demo-target.ts';
import type { RestClient } from './rest-client.ts';

/** What examples.json keeps between starts. */
const State = z.object({
  ports: z.object({ http: z.number(), tcp: z.number(), dns: z.number() }),
  /** Id of the check that each example became. */
  checks: z.record(z.string(), z.string()),
});
type State = z.infer<typeof State>;

/**
 * Starts the demo target and sees to it that the example checks fit it: made on the first start, left
 * alone on later ones, unless a port of the demo had to change. A deleted example stays deleted.
 *
 * @param create false: make no examples; those of an earlier start keep their target
 * @returns undefined when there is nothing to watch
 */
export async function startExamples(
  dataDir: string,
  rest: RestClient,
  location: string,
  create: boolean,
): Promise<DemoTarget | undefined> {
  const file = join(dataDir, 'examples.json');
  const before = await readState(file, State);
  if (before === undefined && !create) return undefined;
  const demo = await startDemoTarget(before?.ports);
  try {
    const state: State = { ports: demo.ports, checks: { ...before?.checks } };
    const moved = before !== undefined && !isDeepStrictEqual(before.ports, demo.ports);
    for (const example of demoChecks(demo.ports, location)) {
      await settle(rest, example, state, moved);
      await writeState(file, state);
    }
  } catch (error) {
    await demo.close();
    throw error;
  }
  return demo;
}

/** Makes the check if it never was, or gives it the new ports. */
async function settle(rest: RestClient, example: DemoCheck, state: State, moved: boolean): Promise<void> {
  const { key, path, definition } = example;
  const id = state.checks[key];
  if (id === undefined) {
    const created = await rest.call('POST', path, definition);
    state.checks[key] = z.object({ id: z.string() }).parse(created).id;
  } else if (moved) {
    // 404, for a check that the user deleted, is fine.
    await rest.call('PUT', `${path}/${id}`, definition);
  }
}
