import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { RUNTIMES } from '../../../checks/index.ts';
import { notFound } from '../../verbs/index.ts';
import { openRoute, type Route } from '../route.ts';

const tag = 'reference';

const Runtime = z
  .strictObject({
    name: z.enum(RUNTIMES),
    stage: z.enum(['CURRENT', 'STABLE', 'REMOVED']).describe('REMOVED: agents of this version cannot run it'),
    nodeJsVersion: z.string(),
    multiStepSupport: z.boolean(),
    runtimeEndOfLife: z.string().nullable(),
    description: z.string(),
    dependencies: z.record(z.string(), z.string()).describe('Version by package'),
  })
  .meta({ id: 'Runtime' });
type RuntimeName = (typeof RUNTIMES)[number];

/** Node and Playwright of each. The others are removed: what they need is out of maintenance. */
const VERSIONS: Readonly<Record<RuntimeName, readonly [node: string, playwright: string]>> = {
  '2026.04': ['24.13.1', '1.58.2'],
  '2025.04': ['22.11.0', '1.51.1'],
  '2024.09': ['18.20.3', '1.48.2'],
  '2024.02': ['18.20.3', '1.42.1'],
  '2023.09': ['18.20.3', '1.38.1'],
  '2023.02': ['16.20.2', '1.32.3'],
  '2022.10': ['16.20.2', '1.28.0'],
};
const STAGES = new Map<RuntimeName, 'CURRENT' | 'STABLE'>([
  ['2026.04', 'CURRENT'],
  ['2025.04', 'STABLE'],
]);
/** The first in which steps of requests run. */
const FIRST_MULTI_STEP: RuntimeName = '2023.09';

async function showRuntime(name: RuntimeName): Promise<z.input<typeof Runtime>> {
  const [nodeJsVersion, playwright] = VERSIONS[name];
  return {
    name,
    stage: STAGES.get(name) ?? 'REMOVED',
    nodeJsVersion,
    multiStepSupport: name >= FIRST_MULTI_STEP,
    runtimeEndOfLife: null,
    description: `Node.js ${nodeJsVersion} with Playwright ${playwright}`,
    dependencies: await dependenciesOf(name),
  };
}

const Manifest = z.object({ dependencies: z.record(z.string(), z.string()).default({}) });
/** Of the runtime's own machinery, not for scripts. */
const INTERNAL = /^node-(linux|darwin)-/;

/** As the runtime's folder beside the program says; nothing for those without one. */
async function dependenciesOf(name: RuntimeName): Promise<Record<string, string>> {
  const file = new URL(`../../../../runtimes/${name}/package.json`, import.meta.url);
  const text = await readFile(file, 'utf8').catch(() => '{}');
  const { dependencies } = Manifest.parse(JSON.parse(text));
  return Object.fromEntries(Object.entries(dependencies).filter(([each]) => !INTERNAL.test(each)));
}

/** They are part of the program, so that once read they do not change. */
const known = new Map<RuntimeName, Promise<z.input<typeof Runtime>>>();

async function knownRuntime(name: RuntimeName): Promise<z.input<typeof Runtime>> {
  const shown = known.get(name) ?? showRuntime(name);
  known.set(name, shown);
  return shown;
}

export const runtimeRoutes: readonly Route[] = [
  openRoute(
    {
      method: 'GET',
      path: '/v1/runtimes',
      tag,
      summary: 'List the runtimes that scripts may choose, newest first',
      status: 200,
      reply: z.array(Runtime),
    },
    async () => Promise.all(RUNTIMES.map(knownRuntime)),
  ),
  openRoute(
    {
      method: 'GET',
      path: '/v1/runtimes/{id}',
      tag,
      summary: 'Read a runtime',
      status: 200,
      reply: Runtime,
      errors: [404],
    },
    async ({ params }) => {
      const name = RUNTIMES.find((each) => each === params.id);
      if (name === undefined) throw notFound('runtime', params.id);
      return knownRuntime(name);
    },
  ),
];
