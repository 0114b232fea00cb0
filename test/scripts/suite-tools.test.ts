import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { create } from 'tar';
import { expect, test } from 'vitest';
import { isToolInstalled, MORE_TOOLS, USUAL_TOOLS } from '../../src/agent/suites/index.ts';
import { installTools, type ToolOptions } from '../../src/cli/install-tools.ts';
import { runVedette } from '../cli/program.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Installs below `folder` from a registry. @returns why it failed */
async function failure(folder: string, registry: string, more: Partial<ToolOptions> = {}): Promise<string> {
  const npm = { npm_config_registry: registry, npm_config_fetch_retries: '0' };
  const env = { ...process.env, ...npm, npm_config_cache: join(folder, 'cache') };
  const { signal } = new AbortController();
  const options = { log: () => {}, env, signal, folder: join(folder, 'tools'), ...more };
  return installTools(options).then(
    () => expect.unreachable('they were installed'),
    (error: unknown) => (error as Error).message,
  );
}

/** A registry that has one small package under every name and version. */
async function startRegistry(folder: string): Promise<Server> {
  const archive = join(folder, 'any.tgz');
  mkdirSync(join(folder, 'package'));
  writeFileSync(join(folder, 'package/package.json'), '{"name": "any", "version": "1.0.0"}');
  await create({ cwd: folder, file: archive, gzip: true }, ['package']);
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url!.slice(1));
    if (name.endsWith('.tgz')) return void response.end(readFileSync(archive));
    const { version } = USUAL_TOOLS.find((tool) => tool.name === name)!;
    const tarball = `http://${request.headers.host}/${name.replace('/', '-')}.tgz`;
    const versions = { [version]: { name, version, dist: { tarball } } };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ name, 'dist-tags': { latest: version }, versions }));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

test('a tool that is not what it should be is refused, and none is left', async () => {
  using folder = temporaryFolder();
  const registry = await startRegistry(folder.path);
  try {
    const { port } = registry.address() as AddressInfo;
    expect(await failure(folder.path, `http://127.0.0.1:${port}/`)).toBe(
      'tools for suites are not installed, so agents fetch them when a suite needs them: ' +
        `npm ${USUAL_TOOLS[0]!.version} of this registry is another than it should be`,
    );
    expect(readdirSync(join(folder.path, 'tools'))).toEqual([]);
  } finally {
    registry.close();
    registry.closeAllConnections();
  }
});

test('a registry that cannot be reached is named, with what to change', async () => {
  using folder = temporaryFolder();
  // Nothing listens on port 1.
  expect(await failure(folder.path, 'http://127.0.0.1:1/')).toMatch(
    /^tools for suites are not installed, .*: npm does not reach its registry \(.*ECONNREFUSED.*\); npm's settings/,
  );
  expect(isToolInstalled(USUAL_TOOLS[0]!, join(folder.path, 'tools'))).toBe(false);
});

test('names that there are not end with code 2 and one line', async () => {
  const { code, stdout, stderr } = await runVedette(['runtime', 'install', '--suite-tools', 'bun,deno']);
  expect(stderr).toBe(
    `vedette: runtime: --suite-tools 'deno': there are ${Object.keys(MORE_TOOLS).join(' and ')}\n`,
  );
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
});
