import { join } from 'node:path';
import type { Job } from '../../src/contract/index.ts';
import type { Runtime } from '../../src/agent/runtimes/index.ts';
import { standInJob } from './agent.ts';
import type { Step } from './stand-in-script.ts';

export const STAND_IN_SCRIPT = new URL('./stand-in-script.ts', import.meta.url);

const root = join(import.meta.dirname, '../..');

/** A runtime for stand-in scripts: this Node, and no packages that matter. */
export const STAND_IN_RUNTIME: Runtime = {
  id: '2026.04',
  node: process.execPath,
  nodeVersion: process.versions.node,
  modules: join(root, 'node_modules'),
  playwrightVersion: '0.0.0',
  browsers: join(root, 'test/support'),
  browserFolders: [],
  hasWholeChromium: false,
  flags: [],
};

export const DONE = { t: 'done', startTime: 0, endTime: 0, verdict: 'passed', errors: [], degraded: [] };

type Variable = { key: string; value: string; secret?: boolean };

/** A multistep job whose process does these steps. */
export function stepsJob(
  steps: readonly Step[],
  more: Partial<Job> = {},
  spec: { environmentVariables?: Variable[]; [field: string]: unknown } = {},
): Job {
  const { environmentVariables = [], ...rest } = spec;
  const variables = [{ key: 'STEPS', value: JSON.stringify(steps) }, ...environmentVariables];
  return standInJob(
    { script: '// nothing', ...rest, environmentVariables: variables },
    { checkType: 'MULTI_STEP', name: 'steps', timeoutMs: 20_000, ...more },
  );
}

/** A check whose script is real. */
export function scriptJob(
  checkType: 'BROWSER' | 'MULTI_STEP',
  script: string,
  spec: Record<string, unknown> = {},
  more: Partial<Job> = {},
): Job {
  return standInJob({ script, ...spec }, { checkType, name: 'a script', timeoutMs: 60_000, ...more });
}
