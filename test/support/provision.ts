import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { offeredRuntimes } from '../../src/agent/runtimes/index.ts';
import { installRuntime } from '../../src/cli/install-runtime.ts';
import { installTools } from '../../src/cli/install-tools.ts';
import { messageOf } from '../../src/kit/errors.ts';

/** The Debian packages that the tests use as real counterparts, and what is skipped without each. */
const PACKAGES: Readonly<Record<string, string>> = {
  'nginx-light': 'HTTP and TLS targets',
  bind9: 'a real name server',
  'bind9-dnsutils': 'comparison with dig',
  'dnsmasq-base': 'a small name server',
  postgresql: 'the store on PostgreSQL',
  'iputils-ping': 'the ping program',
  iproute2: 'network namespaces',
  openssl: 'comparison with s_client',
  prometheus: 'alerts of the chart',
  curl: 'comparison with curl',
  tinyproxy: 'an HTTP proxy',
  faketime: 'a clock that is wrong',
  chromium: 'browser checks',
  'chromium-headless-shell': 'browser checks',
  ffmpeg: 'videos of browser checks',
};

/** Services that some of them bring; they would sit on ports 53, 80, 5432 and 8888. */
const SERVICES: Readonly<Record<string, string>> = {
  'nginx-light': 'nginx',
  bind9: 'named',
  postgresql: 'postgresql',
  prometheus: 'prometheus',
  tinyproxy: 'tinyproxy',
};

/** Debian asks this file before it starts the service of a package; 101 means do not. */
const POLICY_FILE = '/usr/sbin/policy-rc.d';
const POLICY = '#!/bin/sh\n# Made by the tests of vedette while they install packages.\nexit 101\n';

/**
 * Brings what the tests use besides npm's packages: Debian's first, because a runtime may need Chromium of
 * this machine.
 */
export async function provision(signal: AbortSignal): Promise<void> {
  provisionPackages();
  for (const id of offeredRuntimes()) await provisionRuntime(id, signal);
  await provisionTools(signal);
}

async function provisionTools(signal: AbortSignal): Promise<void> {
  const log = (line: string): void => console.log(`vedette: ${line}`);
  try {
    await installTools({ log, env: process.env, signal });
  } catch (error) {
    log(messageOf(error));
  }
}

async function provisionRuntime(id: string, signal: AbortSignal): Promise<void> {
  const nothingToDo = `runtime ${id} is installed`;
  const log = (line: string): void => void (line === nothingToDo || console.log(`vedette: ${line}`));
  try {
    await installRuntime(id, { log, browsers: true, env: process.env, signal });
  } catch (error) {
    console.log(`vedette: ${messageOf(error)}; tests skip what needs it`);
  }
}

/**
 * Installs the packages that are missing, where that is possible: as root on Debian. Anywhere else each
 * test lane skips for itself what it cannot run. Prints one line unless there is nothing to do; a failed
 * installation is a line too, because the tests that need no package are still worth running.
 */
function provisionPackages(): void {
  const missing = Object.keys(PACKAGES).filter((name) => !isInstalled(name));
  if (missing.length === 0) return;
  const lost = missing.map((name) => `${name} (${PACKAGES[name]})`).join(', ');
  if (!isDebian()) return console.log(`vedette: not Debian; tests skip what they miss of: ${lost}`);
  if (process.getuid?.() !== 0) {
    return console.log(
      `vedette: tests skip what needs ${lost}; to get it: apt-get install ${missing.join(' ')}`,
    );
  }
  const begun = performance.now();
  const failure = withoutStartingServices(() => installPackages(missing));
  const seconds = Math.round((performance.now() - begun) / 1000);
  console.log(
    failure === undefined
      ? `vedette: installed ${missing.join(', ')} with apt-get in ${seconds} s`
      : `vedette: apt-get failed (${failure}); tests skip what needs ${lost}`,
  );
}

function isDebian(): boolean {
  return existsSync('/usr/bin/dpkg-query') && /^ID(_LIKE)?=.*debian/m.test(readOr('/etc/os-release', ''));
}

function readOr(file: string, otherwise: string): string {
  return existsSync(file) ? readFileSync(file, 'utf8') : otherwise;
}

function isInstalled(name: string): boolean {
  const query = spawnSync('dpkg-query', ['-W', '-f=${db:Status-Status}', name], { encoding: 'utf8' });
  return query.status === 0 && query.stdout === 'installed';
}

/** @returns why it failed, or undefined */
function installPackages(names: readonly string[]): string | undefined {
  return (
    run('apt-get', 'update', '-q') ??
    run('apt-get', 'install', '-q', '-y', '--no-install-recommends', ...names) ??
    disableServices(names)
  );
}

function run(file: string, ...args: string[]): string | undefined {
  const options = file === 'apt-get' ? ['-o', 'DPkg::Lock::Timeout=300'] : [];
  const done = spawnSync(file, [...options, ...args], {
    encoding: 'utf8',
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (done.status === 0) return undefined;
  return (done.error?.message ?? done.stderr.trim().split('\n').at(-1)) || `${file} exited ${done.status}`;
}

/** With systemd, an installed service starts at the next boot unless it is disabled. */
function disableServices(names: readonly string[]): undefined {
  if (!existsSync('/run/systemd/system')) return;
  for (const name of names) {
    const service = SERVICES[name];
    if (service !== undefined) run('systemctl', 'disable', '--quiet', service);
  }
}

function withoutStartingServices<T>(work: () => T): T {
  const present = readOr(POLICY_FILE, '');
  if (present !== '' && present !== POLICY) return work();
  writeFileSync(POLICY_FILE, POLICY, { mode: 0o755 });
  try {
    return work();
  } finally {
    rmSync(POLICY_FILE, { force: true });
  }
}
