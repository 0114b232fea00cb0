import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { removeFolder } from '../sandbox/index.ts';
import { packageOf } from './commands.ts';
import { nodeTool } from './engines.ts';
import { hasIntegrity, unpackPackage } from './package-archive.ts';
import type { Project } from './protocol.ts';
import { folderOfTool, INSTALLED_TOOLS, integrityOf, placeTool, type Tool } from './tools.ts';

const managerOf = (name: Project['packageManager']['name'], isBerry = false): Tool =>
  packageOf({ name, version: null, isBerry, pnp: false });

/** What every installation for suites has, as small as it is: 49 MB, 9 on their way. */
export const USUAL_TOOLS: readonly Tool[] = [
  managerOf('npm'),
  managerOf('pnpm'),
  managerOf('yarn'),
  managerOf('yarn', true),
];
/** Each 100 MB and more, 40 to 50 on their way, by the names that users give them. */
export const MORE_TOOLS: Readonly<Record<string, Tool>> = { bun: managerOf('bun'), node22: nodeTool(22) };

export { INSTALLED_TOOLS, type Tool } from './tools.ts';

export const isToolInstalled = (tool: Tool, folder = INSTALLED_TOOLS): boolean =>
  existsSync(folderOfTool(folder, tool));

/**
 * Makes a package of the registry a tool of the installation.
 *
 * @param archive file that the registry gave
 * @throws when it is not what it should be
 */
export async function installTool(tool: Tool, archive: string, folder = INSTALLED_TOOLS): Promise<void> {
  const bytes = await readFile(archive);
  const integrity = integrityOf(tool);
  if (integrity !== null && !hasIntegrity(bytes, integrity)) {
    throw new Error(`${tool.name} ${tool.version} of this registry is another than it should be`);
  }
  await mkdir(folder, { recursive: true });
  const path = folderOfTool(folder, tool);
  // Beside its place, so that it gets there in one step.
  const unpacked = `${path}.new`;
  await removeFolder(unpacked);
  await unpackPackage(bytes, unpacked);
  await placeTool(tool, unpacked, path);
}
