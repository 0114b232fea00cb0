import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { DEBIAN_IMAGE, docker, ensureDebianImage } from './base.ts';

export type Target = 'agent' | 'uptime' | 'service';

const PROJECT = resolve(import.meta.dirname, '../..');
/** Files with the authorities that this machine trusts; a proxy that opens TLS may be among them. */
const AUTHORITIES = [process.env['NODE_EXTRA_CA_CERTS'] ?? '', '/etc/ssl/certs/ca-certificates.crt'];
/** What the build has to know of this machine's network. */
const NETWORK = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'NPM_CONFIG_REGISTRY'];
const MB = 1e6;

/** Debian's docker.io has BuildKit inside, newer ones a plugin for it, which may be missing. */
const builder = ['docker', '/usr/bin/docker'].find((program) =>
  spawnSync(program, ['build', '--help'], { encoding: 'utf8', env: buildKit() }).stdout?.includes('--secret'),
);

function buildKit(): NodeJS.ProcessEnv {
  return { ...process.env, DOCKER_BUILDKIT: '1' };
}

/** Why no image can be built here; undefined when one can. */
export function lacksImages(): string | undefined {
  const lacks = ensureDebianImage();
  if (lacks !== undefined) return lacks;
  return builder === undefined ? 'this docker has no BuildKit (apt-get install docker-buildx)' : undefined;
}

export interface Built {
  image: string;
  seconds: number;
  megabytes: number;
}

/**
 * Builds a target from this checkout, with Debian's browsers: Playwright's come from where a machine that
 * tests may not get to.
 *
 * @throws Error with the end of what the build said
 */
export async function build(target: Target): Promise<Built> {
  const image = `vedette-test-${target}`;
  const begun = performance.now();
  const options = ['--target', target, '--build-arg', `BASE_IMAGE=${DEBIAN_IMAGE}`];
  await runBuild(...options, '--build-arg', 'BROWSER_SOURCE=debian', '--tag', image);
  const seconds = Math.round((performance.now() - begun) / 1000);
  const size = docker('image', 'inspect', '--format', '{{.Size}}', image).stdout;
  return { image, seconds, megabytes: Math.round(Number(size) / MB) };
}

/** Builds the image with compilers upon the one of the agent. @returns its name */
export async function buildDev(agent: string): Promise<string> {
  const image = `${agent}-dev`;
  const file = resolve(PROJECT, 'Dockerfile.dev');
  await runBuild('--file', file, '--build-arg', `AGENT_IMAGE=${agent}`, '--tag', image);
  return image;
}

/** A file with the authorities that this machine trusts. */
export const authorityFile = (): string | undefined =>
  AUTHORITIES.find((each) => each !== '' && existsSync(each));

/** How this machine reaches registries. */
export const networkOfMachine = (): Record<string, string> =>
  Object.fromEntries(NETWORK.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])));

/** Files of the target `sbom`, into a folder. */
export const writePartsLists = (folder: string): Promise<void> =>
  runBuild(
    '--target=sbom',
    `--build-arg=BASE_IMAGE=${DEBIAN_IMAGE}`,
    '--build-arg=BROWSER_SOURCE=debian',
    `--output=type=local,dest=${folder}`,
  );

async function runBuild(...options: string[]): Promise<void> {
  // A name alone passes on the variable of this process.
  const buildArgs = Object.keys(networkOfMachine()).map((name) => `--build-arg=${name}`);
  const file = authorityFile();
  const secrets = file === undefined ? [] : [`--secret=id=ca,src=${file}`];
  const args = ['build', '--progress=plain', ...options, ...buildArgs, ...secrets, PROJECT];
  const child = spawn(builder!, args, { stdio: ['ignore', 'pipe', 'pipe'], env: buildKit() });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output = (output + text).slice(-6000)));
  }
  const [code] = (await once(child, 'close')) as [number | null];
  if (code !== 0) throw new Error(`the build ended with ${code}: ${output}`);
}

/** What a registry would keep of it and a pull would bring, MB. */
export function packedMegabytes(image: string): number {
  const piped = `docker save ${image} | gzip -6 | wc -c`;
  const { stdout } = spawnSync('bash', ['-o', 'pipefail', '-c', piped], { encoding: 'utf8' });
  return Math.round(Number(stdout) / MB);
}
