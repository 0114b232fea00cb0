import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { offeredRuntimes, runtimePaths, RUNTIMES_FOLDER } from '../../src/agent/runtimes/index.ts';
import { INSTALLED_TOOLS } from '../../src/agent/suites/index.ts';
import { temporaryFolder } from '../support/agent.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { lacksRuntime } from '../support/runtime-root.ts';
import { lacksNamespaces } from '../support/targets/namespace.ts';
import { makeCertificates } from '../support/targets/certificates.ts';
import { freePort, listenOn } from '../support/targets/ports.ts';
import { examine as examineAll, SLOW, type Examined } from './doctor.ts';
import { runVedette } from './program.ts';

/** The machine itself, broken in every way: each in mounts, networks and control groups of its own. */

const folder = temporaryFolder();
const noNamespaces = (await lacksNamespaces()) ?? lacks('unshare');
const noRuntime = lacksRuntime('2026.04');

afterAll(() => folder[Symbol.dispose]());

/** The way to the service has tests of its own. */
const WAY = ['name', 'connection', 'proxy', 'tls', 'service', 'key', 'websocket', 'clock'];

function examine(
  settings: Record<string, string>,
  { within = [], skip = SLOW }: { within?: readonly string[]; skip?: readonly string[] } = {},
): Promise<Examined> {
  return examineAll(settings, { within, skip: [...WAY, ...skip] });
}

const env = (more: Record<string, string> = {}): Record<string, string> => ({
  API_KEY: 'pl_0123456789abcdef',
  AGENT_SERVICE_URL: 'http://192.0.2.1',
  ...more,
});

/** With mounts of its own, after these commands. */
const afterMounts = (...commands: string[]): string[] => [
  'unshare',
  '-m',
  'sh',
  '-c',
  `${commands.join(' && ')} && exec "$0" "$@"`,
];
const readOnly = (path: string): string => `mount -t tmpfs -o ro none ${path}`;
const empty = (path: string): string => `mount -t tmpfs none ${path}`;

describe('vedette doctor on this machine', () => {
  test('a health port that something else has', async () => {
    const other = createServer();
    const port = await listenOn(other, '0.0.0.0');
    const { code, trouble } = await examine(env({ AGENT_HEALTH_PORT: String(port) }));
    other.close();
    expect(code).toBe(2);
    expect(trouble['health-port']).toMatch(/EADDRINUSE.* → Set AGENT_HEALTH_PORT to a free port/);
  });

  test('a step that is not there cannot be left out', async () => {
    const { code, stderr } = await runVedette(['doctor', '--skip', 'dns'], { env: env() });
    expect(code).toBe(2);
    expect(stderr).toMatch(/^vedette: --skip: there is no step 'dns'; there are settings, authorities, /);
  });
});

describeUnless(noNamespaces, 'vedette doctor and folders', () => {
  test('a data folder that is read-only', async () => {
    const path = join(folder.path, 'data');
    mkdirSync(path);
    const within = afterMounts(readOnly(path));
    const { code, trouble } = await examine(env({ AGENT_DATA_DIR: path }), { within });
    expect(code).toBe(2);
    expect(trouble['data-folder']).toMatch(
      /^failed: AGENT_DATA_DIR=\S+ cannot be written: EROFS: read-only file system → It is read-only: mount a writ/,
    );
  });

  test('no folder that can be written, and only a temporary one', async () => {
    const TMPDIR = join(folder.path, 'temporary');
    mkdirSync(TMPDIR);
    const none = await examine(env({ AGENT_DATA_DIR: '', TMPDIR }), {
      within: afterMounts(readOnly('/var/lib'), readOnly(TMPDIR)),
    });
    expect(none.code).toBe(2);
    expect(none.trouble['data-folder']).toMatch(
      /^failed: neither \/var\/lib\/vedette nor \S+\/temporary can be written: .* → It is read-only/,
    );
    const temporary = await examine(env({ AGENT_DATA_DIR: '' }), {
      within: afterMounts(readOnly('/var/lib')),
    });
    expect(temporary.code).toBe(0);
    expect(temporary.trouble['data-folder']).toMatch(
      /^warning: \/var\/lib\/vedette cannot be written .*which a restart loses → Set AGENT_DATA_DIR/,
    );
  });
});

describeUnless(noNamespaces ?? lacks('setpriv'), 'vedette doctor without ping', () => {
  test('no group may ping, and no privilege helps', async () => {
    const commands = 'ip link set lo up && sysctl -qw "net.ipv4.ping_group_range=1 0" && exec "$0" "$@"';
    const bounded = ['setpriv', '--bounding-set', '-net_raw', '--inh-caps', '-net_raw'];
    const within = ['unshare', '-n', 'sh', '-c', commands, ...bounded];
    const { trouble, notServed, untried } = await examine(env(), { within });
    expect(trouble['icmp']).toMatch(
      /^failed: this agent may not ping \(.*\) → Allow the group of this user in the sysctl net\.ipv4\.ping_group_range/,
    );
    expect(notServed).toContain('ICMP');
    expect(untried).not.toContain('icmp');
  });
});

/** Where the control group of memory is made; undefined where none can be. */
function memoryGroup(): string | undefined {
  return ['/sys/fs/cgroup/memory', '/sys/fs/cgroup'].find((top) =>
    existsSync(join(top, top.endsWith('memory') ? 'memory.limit_in_bytes' : 'cgroup.controllers')),
  );
}

const top = process.getuid?.() === 0 ? memoryGroup() : undefined;
const noGroups = top === undefined ? 'control groups of memory need root' : undefined;

describeUnless(noGroups, 'vedette doctor and tiny memory', () => {
  const group = join(top ?? '', `vedette-doctor-${process.pid}`);
  const limitFile = top?.endsWith('memory') === true ? 'memory.limit_in_bytes' : 'memory.max';
  const within = ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$0" "$@"`];
  const limitedTo = (megabytes: number): void =>
    writeFileSync(join(group, limitFile), String(megabytes * 1024 * 1024));
  beforeAll(() => mkdirSync(group));
  afterAll(() => rmdirSync(group));

  test('too small for browsers', async () => {
    limitedTo(600);
    const { code, trouble, notServed } = await examine(env(), { within });
    expect(code).toBe(0);
    expect(trouble['machine']).toMatch(/600 MB of memory.*: too small for BROWSER → Give it more memory/);
    expect(notServed).toEqual(['BROWSER']);
  });

  test('too small for an agent', async () => {
    limitedTo(300);
    const { code, trouble } = await examine(env(), { within });
    expect(code).toBe(3);
    expect(trouble['machine']).toMatch(
      /^failed: .* 300 MB of memory.*: the agent alone needs 320 MB → Give it/,
    );
  });
});

describe('vedette doctor and the sandbox', () => {
  const within = [process.execPath, new URL('../support/without-landlock.ts', import.meta.url).pathname];

  test('partial is a warning, and a failure where all walls are required', async () => {
    const partial = await examine(env({ SANDBOX: 'best-effort' }), { within });
    expect(partial.code).toBe(0);
    expect(partial.trouble['sandbox']).toMatch(
      /^warning: partial: Landlock: .* → Use a kernel with Landlock/,
    );
    const required = await examine(env({ SANDBOX: 'require' }), { within });
    expect(required.code).toBe(2);
    expect(required.trouble['sandbox']).toMatch(/^failed: SANDBOX=require: .* or set SANDBOX=best-effort$/);
    expect(required.untried).toEqual(expect.arrayContaining(['probes', 'icmp']));
  });
});

const registryNowhere = async (): Promise<Record<string, string>> => ({
  NPM_CONFIG_REGISTRY: `http://127.0.0.1:${await freePort()}`,
});

describeUnless(noRuntime ?? noNamespaces, 'vedette doctor, scripts and browsers', () => {
  test('a script runs, a browser opens a page', async () => {
    const { code, trouble } = await examine(env(await registryNowhere()), { skip: [] });
    expect(code).toBe(0);
    expect(Object.keys(trouble)).toEqual(['npm-registry']);
    expect(trouble['npm-registry']).toMatch(
      /^warning: npm does not reach its registry \(.*ECONNREFUSED.* → Set NPM_CONFIG_REGISTRY to a mirror/,
    );
  });

  test('a registry behind an authority of its own: with the file, and without', async () => {
    const certificates = await makeCertificates(folder.path);
    const { chain, key } = certificates.good;
    const version = { name: 'playwright', version: '9.9.9' };
    const found = { name: 'playwright', 'dist-tags': { latest: '9.9.9' }, versions: { '9.9.9': version } };
    const registry = createHttpsServer({ cert: readFileSync(chain), key: readFileSync(key) }, (_, response) =>
      response.end(JSON.stringify(found)),
    );
    // Without the machine's own settings: npm's cafile, where there is one, is all that npm trusts.
    const npm = {
      NPM_CONFIG_REGISTRY: `https://localhost:${await listenOn(registry)}/`,
      NPM_CONFIG_GLOBALCONFIG: '/dev/null',
    };
    const skip = ['scripts', 'browser', 'probes'];
    const without = await examine(env(npm), { skip });
    expect(without.trouble['npm-registry']).toMatch(/^warning: .*(ISSUER|VERIFY).* NODE_EXTRA_CA_CERTS for/);
    const NODE_EXTRA_CA_CERTS = certificates.trusted;
    const within = await examine(env({ ...npm, NODE_EXTRA_CA_CERTS }), { skip });
    registry.close();
    expect(within.trouble).toEqual({});
    expect(within.text).toContain('it has playwright 9.9.9');
  });

  test('tools of suites that are gone are a warning', async () => {
    mkdirSync(INSTALLED_TOOLS, { recursive: true });
    const { code, trouble } = await examine(env(), { within: afterMounts(empty(INSTALLED_TOOLS)) });
    expect(code).toBe(0);
    expect(trouble['suite-tools']).toMatch(
      /^warning: npm \S+, pnpm .* are not installed: the first suite that needs one .* → Install them, /,
    );
  });

  test('a browser that is gone', async () => {
    const within = afterMounts(empty(runtimePaths('2026.04').browsers));
    const { code, trouble, notServed } = await examine(env(), { within, skip: ['scripts', 'npm-registry'] });
    expect(code).toBe(3);
    expect(trouble['browser']).toMatch(
      /^failed: the browser does not work: .* → Install it anew, with the lib/,
    );
    expect(notServed).toEqual(['BROWSER']);
  });

  test('a runtime without a browser', async () => {
    const { record } = runtimePaths('2026.04');
    const without = join(folder.path, 'record.json');
    const found = JSON.parse(readFileSync(record, 'utf8')) as object;
    const browsers = { source: 'none', version: '', folders: [] };
    writeFileSync(without, JSON.stringify({ ...found, browsers }));
    const within = afterMounts(`mount --bind ${without} ${record}`);
    const { code, trouble, notServed } = await examine(env(), { within, skip: ['scripts', 'npm-registry'] });
    expect(code).toBe(0);
    expect(trouble['browser']).toMatch(
      /^warning: runtime 2026\.04 is installed without a browser → Install one/,
    );
    expect(notServed).toEqual(['BROWSER']);
  });

  test('no runtime, and no registry to install one from', async () => {
    const gone = offeredRuntimes().map((id) => empty(runtimePaths(id).modules));
    const { code, trouble, notServed } = await examine(env(await registryNowhere()), {
      within: afterMounts(...gone),
      skip: [],
    });
    expect(code).toBe(3);
    expect(trouble['runtimes']).toMatch(
      /^warning: none is installed, so runs with scripts wait → Install one/,
    );
    expect(trouble['npm-registry']).toMatch(/^failed: /);
    expect(notServed).toEqual(['BROWSER', 'MULTI_STEP', 'API with scripts']);
  });

  test('an installation for uptime checks: what it does not serve is a warning', async () => {
    const { code, trouble, notServed } = await examine(env(), {
      within: afterMounts(empty(RUNTIMES_FOLDER)),
      skip: [],
    });
    expect(code).toBe(0);
    expect(Object.keys(trouble)).toEqual(['runtimes']);
    expect(notServed).toEqual(['BROWSER', 'MULTI_STEP', 'API with scripts']);
  });
});
