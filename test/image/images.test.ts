import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { z } from 'zod';
import { VERSION } from '../../src/kit/version.ts';
import { describeUnless } from '../support/programs.ts';
import { docker } from './base.ts';
import { packedMegabytes, writePartsLists } from './build.ts';

const Config = z.object({
  User: z.string(),
  Cmd: z.array(z.string()),
  Labels: z.record(z.string(), z.string()),
  Healthcheck: z.object({ Test: z.array(z.string()) }),
  Volumes: z.record(z.string(), z.object({})),
});
const Bom = z.object({
  bomFormat: z.literal('CycloneDX'),
  components: z.array(z.object({ name: z.string(), version: z.string() })),
});

/** Runs a command of the image to its end. */
function run(image: string, ...args: string[]): { status: number | null; stdout: string; stderr: string } {
  return docker('run', '--rm', '--read-only', '--cap-drop', 'ALL', image, ...args);
}

describeUnless(inject('noImages') ?? undefined, 'the images', () => {
  const images = inject('images')!;
  const all = [images.agent, images.uptime, images.service];
  const configOf = (image: string): z.infer<typeof Config> =>
    Config.parse(JSON.parse(docker('image', 'inspect', '--format', '{{json .Config}}', image).stdout));

  test('that for uptime checks is below 250 MB, and below 100 MB on its way', () => {
    const packed = packedMegabytes(images.uptime.image);
    console.log(`vedette: ${images.uptime.image} has ${packed} MB packed`);
    expect(images.uptime.megabytes).toBeLessThan(250);
    expect(packed).toBeLessThan(100);
    expect(packed).toBeGreaterThan(0);
  });

  test('run as nobody special, say what they are, and are asked how they are', () => {
    for (const { image } of all) {
      const { User, Labels, Healthcheck, Volumes } = configOf(image);
      expect(User).toBe('1000');
      expect(Labels).toMatchObject({
        'org.opencontainers.image.version': VERSION,
        'org.opencontainers.image.licenses': 'Apache-2.0',
        'org.opencontainers.image.title': expect.stringContaining('Vedette'),
      });
      expect(Healthcheck.Test[0]).toBe('CMD');
      expect(Object.keys(Volumes)).toEqual(['/var/lib/vedette']);
    }
  });

  test('are the command: --version, help, and what is wrong without settings', () => {
    for (const { image } of all) {
      expect(run(image, '--version')).toMatchObject({ status: 0, stdout: `${VERSION}\n` });
      expect(run(image, 'help').stdout).toContain('Usage: vedette COMMAND');
    }
    const { status, stderr } = run(images.agent.image);
    expect(status).toBe(2);
    expect(stderr).toMatch(/^vedette: API_KEY: it is not set/);
  });

  test('an image for agents says that it has no service', () => {
    const { status, stderr } = run(images.uptime.image, 'service');
    expect(status).toBe(2);
    expect(stderr).toMatch(/^vedette: service is not part of this installation/);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  test('the agent has its runtime, with a browser and without the whole Chromium', () => {
    const lines = run(images.agent.image, 'runtime', 'list').stdout.split('\n');
    expect(lines.find((line) => line.startsWith('2026.04'))).toMatch(/Chromium \d+.* installed, default$/);
    const whole = ['run', '--rm', '--entrypoint', 'ls', images.agent.image, '/usr/lib/chromium/chromium'];
    expect(docker(...whole).status).not.toBe(0);
  });

  test('the agent has neither capabilities of files nor programs that change the user', () => {
    const args = ['run', '--rm', '--user', '0', '--entrypoint', 'node', images.agent.image, '-e'];
    const found = docker(
      ...args,
      `const { readdirSync, lstatSync } = require('node:fs');
      const walk = (folder) => readdirSync(folder, { withFileTypes: true }).forEach((entry) => {
        const path = folder + entry.name;
        if (entry.isDirectory()) return ['/proc', '/sys', '/dev'].includes(path) || walk(path + '/');
        if (entry.isFile() && (lstatSync(path).mode & 0o6000) !== 0) console.log(path);
      });
      walk('/');`.replaceAll('\n', ' '),
    );
    expect(found).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  test('nothing of the build is left in them: no secret, no sources, no development packages', () => {
    for (const { image } of all) {
      const history = docker('history', '--no-trunc', '--format', '{{.CreatedBy}}', image).stdout;
      expect(history).not.toMatch(/BEGIN CERTIFICATE/);
      for (const path of ['run/secrets/ca', 'opt/vedette/src', 'opt/vedette/node_modules/typescript']) {
        const look = `process.exit(require('node:fs').existsSync('/${path}') ? 1 : 0)`;
        expect(docker('run', '--rm', '--entrypoint', 'node', image, '-e', look).status, path).toBe(0);
      }
    }
  });

  test('what is in them is listed by a target of its own', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'vedette-sbom-'));
    try {
      await writePartsLists(folder);
      const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
      const namesIn = (name: string): string[] =>
        Bom.parse(JSON.parse(read(name))).components.map((each) => each.name);
      expect(namesIn('agent.npm.cdx.json')).toEqual(expect.arrayContaining(['koffi', 'ws', 'zod']));
      expect(namesIn('agent.npm.cdx.json')).not.toContain('fastify');
      expect(namesIn('service.npm.cdx.json')).toEqual(expect.arrayContaining(['fastify', 'pg']));
      expect(namesIn('service.npm.cdx.json')).not.toContain('vitest');
      expect(namesIn('runtime-2026.04.npm.cdx.json')).toEqual(expect.arrayContaining(['playwright-core']));
      expect(read('agent.suite-tools.txt')).toMatch(/^npm \d[^]*^pnpm \d[^]*^yarn \d/m);
      expect(read('agent.debian.txt')).toMatch(/^chromium-headless-shell \d/m);
      expect(read('uptime-and-service.debian.txt')).toMatch(/^libc6 \d/m);
      expect(existsSync(join(folder, 'bin'))).toBe(false);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
