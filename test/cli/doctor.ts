import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitUntil } from '../support/programs.ts';
import { statusOf } from '../support/processes.ts';
import { freePort } from '../support/targets/ports.ts';
import { runVedette, vedette } from './program.ts';

/** What `vedette doctor --json` says. */
export interface Examined {
  code: number | string;
  ok: boolean;
  notServed: string[];
  /** Of the hops that have failed or warn: state, found and remedy, by name. */
  trouble: Record<string, string>;
  /** Hops that were not tried. */
  untried: string[];
  /** All that it printed. */
  text: string;
}

interface Hop {
  name: string;
  state: string;
  found: string;
  remedy: string | null;
}

/** Steps that take seconds, left out where they are not what a test is about. */
export const SLOW = ['scripts', 'browser', 'npm-registry'];

export async function examine(
  env: Record<string, string>,
  { within = [], skip = SLOW }: { within?: readonly string[]; skip?: readonly string[] } = {},
): Promise<Examined> {
  using folder = temporaryFolder();
  const args = ['doctor', '--json', ...(skip.length === 0 ? [] : ['--skip', skip.join(',')])];
  const own = { AGENT_DATA_DIR: folder.path, AGENT_HEALTH_PORT: '0', ...env };
  const { code, stdout, stderr } = await runVedette(args, { env: own, within, cwd: folder.path });
  // Node itself complains of a file of authorities that is not there.
  if (stderr !== '' && !stderr.startsWith('Warning: Ignoring extra certs')) throw new Error(stderr);
  const { ok, notServed, hops } = JSON.parse(stdout) as { ok: boolean; notServed: string[]; hops: Hop[] };
  const bad = hops.filter(({ state }) => state === 'failed' || state === 'warning');
  return {
    code,
    ok,
    notServed,
    trouble: Object.fromEntries(
      bad.map(({ name, state, found, remedy }) => [name, `${state}: ${found} → ${remedy}`]),
    ),
    untried: hops.filter(({ state }) => state === 'untried').map(({ name }) => name),
    text: stdout,
  };
}

function temporaryFolder(): { path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), 'vedette-doctor-'));
  chmodSync(path, 0o755);
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export interface RealService extends AsyncDisposable {
  url: string;
  port: number;
  /** Of a private location of it. */
  key: string;
}

/** A service of its own, with one private location. */
export async function startRealService(): Promise<RealService> {
  const folder = temporaryFolder();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const apiKey = 'key_of_the_doctors_tests';
  const program = vedette(['service'], {
    cwd: folder.path,
    env: {
      SERVICE_DATA_DIR: folder.path,
      SERVICE_PORT: String(port),
      SERVICE_HOST: '127.0.0.1',
      BOOTSTRAP_API_KEY: apiKey,
    },
  });
  await waitUntil(async () => (await statusOf(`${url}/-/readiness`)) === 200, 30_000, program.stderr());
  const response = await fetch(`${url}/v1/private-locations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'Office', slugName: 'office' }),
  });
  const { keys } = (await response.json()) as { keys: { rawKey: string }[] };
  return {
    url,
    port,
    key: keys[0]!.rawKey,
    [Symbol.asyncDispose]: async () => {
      program.child.kill('SIGTERM');
      await program.ended;
      folder[Symbol.dispose]();
    },
  };
}
