import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Debian with what a runtime and the headless Chromium need, and no Node: the project is mounted with its own. */
export const BASE_IMAGE = 'vedette-test-base:bookworm';
const PACKAGES = ['ca-certificates', 'libatomic1', 'chromium-headless-shell', 'iputils-ping', 'procps'];
const SUITE = 'bookworm';
const MB = 1024 * 1024;

/**
 * Builds the image from Debian's own archive, since a machine that tests this may reach no registry of
 * images: about a minute and 500 MB, once.
 *
 * @returns why it cannot be had here, or undefined when it is there
 */
export function ensureBaseImage(): string | undefined {
  const daemon = docker('info', '--format', '{{.ServerVersion}}');
  if (daemon.status !== 0) return 'no Docker daemon answers (apt-get install docker.io, then start dockerd)';
  if (docker('image', 'inspect', BASE_IMAGE).status === 0) return undefined;
  if (process.getuid?.() !== 0) return 'only root can make the base image with debootstrap';
  const folder = mkdtempSync(join(tmpdir(), 'vedette-base-'));
  try {
    return bootstrap(folder) ?? importImage(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function bootstrap(folder: string): string | undefined {
  const begun = performance.now();
  const include = `--include=${PACKAGES.join(',')}`;
  const made = spawnSync('debootstrap', ['--variant=minbase', include, SUITE, folder, mirror()], {
    encoding: 'utf8',
    maxBuffer: 16 * MB,
  });
  if (made.error !== undefined) return 'debootstrap is not installed (apt-get install debootstrap)';
  if (made.status !== 0) return `debootstrap failed: ${made.stdout.trim().split('\n').at(-1)}`;
  console.log(`vedette: made ${BASE_IMAGE} in ${Math.round((performance.now() - begun) / 1000)} s`);
  return undefined;
}

/** Where apt gets its packages on this machine. */
function mirror(): string {
  for (const file of ['/etc/apt/sources.list', '/etc/apt/sources.list.d/debian.sources']) {
    try {
      const found = /^(?:deb\s+(?:\[[^\]]*\]\s+)?|URIs:\s*)(\S+)/m.exec(readFileSync(file, 'utf8'));
      if (found?.[1] !== undefined) return found[1];
    } catch {
      // Debian has one of the two.
    }
  }
  return 'http://deb.debian.org/debian';
}

function importImage(folder: string): string | undefined {
  const piped = `tar -C '${folder}' --exclude=./var/cache/apt/archives/*.deb --exclude=./var/lib/apt/lists/* -c . | docker import - ${BASE_IMAGE}`;
  const done = spawnSync('bash', ['-o', 'pipefail', '-c', piped], { encoding: 'utf8' });
  return done.status === 0 ? undefined : `docker import failed: ${done.stderr.trim()}`;
}

export function docker(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync('docker', args, { encoding: 'utf8', maxBuffer: 64 * MB });
  return { status, stdout: stdout ?? '', stderr: stderr ?? '' };
}
