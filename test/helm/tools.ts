import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { lacks, runProgram } from '../support/programs.ts';

/**
 * The two programs that judge the chart: helm, and a validator made of Kubernetes' own code. Both are built
 * once, from pinned versions of the Go module proxy, into a folder outside of the project.
 */
const CACHE = process.env['VEDETTE_TEST_CACHE'] ?? join(homedir(), '.cache', 'vedette-test');
const HELM = 'helm.sh/helm/v3/cmd/helm@v3.22.0';
const SOURCE = join(import.meta.dirname, 'validate');
const BUILD_MS = 1_200_000;

interface Tool {
  /** The built program, in a folder named for what it is built from. */
  path: string;
  /** Arguments of go that build it into a folder. */
  build: (folder: string) => string[];
}

export const helm: Tool = {
  path: join(CACHE, HELM.split('/').at(-1)!, 'helm'),
  build: () => ['install', '-trimpath', '-ldflags=-s -w', HELM],
};

export const validator: Tool = {
  path: join(CACHE, `validate-${digest(SOURCE)}`, 'validate'),
  build: (folder) => ['build', '-C', SOURCE, '-trimpath', '-ldflags=-s -w', '-o', folder, '.'],
};

function digest(folder: string): string {
  const hash = createHash('sha256');
  for (const file of readdirSync(folder).sort()) hash.update(file).update(readFileSync(join(folder, file)));
  return hash.digest('hex').slice(0, 16);
}

/** Why the chart cannot be rendered and judged here; undefined when it can. */
export function toolsMissing(): string | undefined {
  if ([helm, validator].every(({ path }) => existsSync(path))) return undefined;
  return lacks('go') ?? 'helm and the validator could not be built from the Go module proxy; see above';
}

/** Vitest's global set-up: builds what is not there yet, some minutes once. */
export default async function setup(): Promise<void> {
  if (lacks('go') !== undefined) return;
  for (const tool of [helm, validator]) {
    if (!existsSync(tool.path)) await build(tool);
  }
}

async function build({ path, build: args }: Tool): Promise<void> {
  const begun = performance.now();
  mkdirSync(CACHE, { recursive: true });
  const folder = mkdtempSync(join(CACHE, 'build-'));
  try {
    const env = { ...process.env, GOBIN: folder, CGO_ENABLED: '0' };
    const { code, stderr } = await runProgram('go', args(folder), { env, timeoutMs: BUILD_MS });
    if (code !== 0) return console.log(`vedette: ${path} was not built: ${stderr.trim().split('\n').at(-1)}`);
    // Another test run may have been faster, with the same result.
    if (!existsSync(path)) renameSync(folder, join(path, '..'));
    console.log(`vedette: built ${path} in ${Math.round((performance.now() - begun) / 1000)} s`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
