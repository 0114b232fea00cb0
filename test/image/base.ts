import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** An image that is made of Debian's own archive, since a machine that tests may reach no registry of images. */
interface Made {
  image: string;
  suite: string;
  packages: readonly string[];
}

/** Debian with what a runtime and the headless Chromium need, and no Node: the project is mounted with its own. */
export const BASE_IMAGE = 'vedette-test-base:bookworm';
const BASE: Made = {
  image: BASE_IMAGE,
  suite: 'bookworm',
  packages: ['ca-certificates', 'libatomic1', 'chromium-headless-shell', 'iputils-ping', 'procps'],
};

/** What stands in for the base of the images that we ship: the same Debian, without Node. */
export const DEBIAN_IMAGE = 'vedette-test-debian:trixie';
const DEBIAN: Made = { image: DEBIAN_IMAGE, suite: 'trixie', packages: [] };

const MB = 1024 * 1024;

/**
 * Brings the image with the browser: about a minute and 700 MB, once.
 *
 * @returns why it cannot be had here, or undefined when it is there
 */
export const ensureBaseImage = (): string | undefined => ensure(BASE);

/** Brings the bare one: half a minute and 120 MB, once. @returns as above */
export const ensureDebianImage = (): string | undefined => ensure(DEBIAN);

function ensure(made: Made): string | undefined {
  const daemon = docker('info', '--format', '{{.ServerVersion}}');
  if (daemon.status !== 0) return 'no Docker daemon answers (apt-get install docker.io, then start dockerd)';
  if (docker('image', 'inspect', made.image).status === 0) return undefined;
  if (process.getuid?.() !== 0) return 'only root can make the base image with debootstrap';
  const folder = mkdtempSync(join(tmpdir(), 'vedette-base-'));
  try {
    return bootstrap(made, folder) ?? importImage(made, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function bootstrap({ image, suite, packages }: Made, folder: string): string | undefined {
  const begun = performance.now();
  const include = packages.length === 0 ? [] : [`--include=${packages.join(',')}`];
  const from = mirror();
  const made = spawnSync('debootstrap', ['--variant=minbase', ...include, suite, folder, from], {
    encoding: 'utf8',
    maxBuffer: 16 * MB,
  });
  if (made.error !== undefined) return 'debootstrap is not installed (apt-get install debootstrap)';
  if (made.status !== 0) return `debootstrap failed: ${made.stdout.trim().split('\n').at(-1)}`;
  writeFileSync(join(folder, 'etc/apt/sources.list'), sources(suite, from));
  console.log(`vedette: made ${image} in ${Math.round((performance.now() - begun) / 1000)} s`);
  return undefined;
}

/** As in Debian's own images: what came after the release, too. */
const sources = (suite: string, from: string): string =>
  [
    `deb ${from} ${suite} main`,
    `deb ${from} ${suite}-updates main`,
    `deb ${from.replace(/\/debian\/?$/, '/debian-security')} ${suite}-security main`,
    '',
  ].join('\n');

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

function importImage({ image }: Made, folder: string): string | undefined {
  const piped = `tar -C '${folder}' --exclude=./var/cache/apt/archives/*.deb --exclude=./var/lib/apt/lists/* -c . | docker import - ${image}`;
  const done = spawnSync('bash', ['-o', 'pipefail', '-c', piped], { encoding: 'utf8' });
  return done.status === 0 ? undefined : `docker import failed: ${done.stderr.trim()}`;
}

export function docker(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync('docker', args, { encoding: 'utf8', maxBuffer: 64 * MB });
  return { status, stdout: stdout ?? '', stderr: stderr ?? '' };
}
