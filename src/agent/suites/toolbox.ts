import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { makeReadable } from './shelf.ts';
import { SingleFlight } from './single-flight.ts';
import { folderOfTool, INSTALLED_TOOLS, integrityOf, placeTool, type Tool } from './tools.ts';
import type { Workshop } from './workshop.ts';

export const DEFAULT_REGISTRY = 'https://registry.npmjs.org';

/**
 * Node, package managers and Playwright's installer, as packages of the registry: those that came with the
 * installation, and of others each version once, checked by its hash. They are the agent's own, so that a
 * project can use them and not change them.
 */
export class Toolbox {
  /** Of those that were fetched. */
  readonly folder: string;
  readonly #workshop: Workshop;
  readonly #registry: string;
  readonly #flights = new SingleFlight();

  constructor(folder: string, workshop: Workshop, registry: string | undefined) {
    this.folder = folder;
    this.#workshop = workshop;
    this.#registry = registry ?? DEFAULT_REGISTRY;
  }

  /** Folders with tools, which jobs may read and start. */
  get readable(): string[] {
    return [this.folder, INSTALLED_TOOLS];
  }

  async prepare(): Promise<void> {
    await makeReadable(this.folder);
  }

  /**
   * The package's folder; `commands` below it belongs on the PATH.
   *
   * @throws ExecutorFault when it cannot be had
   */
  async get(name: string, version: string): Promise<string> {
    const tool = { name, version };
    const installed = folderOfTool(INSTALLED_TOOLS, tool);
    if (existsSync(installed)) return installed;
    const path = folderOfTool(this.folder, tool);
    await this.#flights.once(path, async () => {
      if (!existsSync(path)) await this.#fetch(tool, path);
    });
    return path;
  }

  async #fetch(tool: Tool, path: string): Promise<void> {
    await this.#workshop.use(async ({ process, folder }) => {
      const into = join(folder, 'package');
      const integrity = integrityOf(tool);
      await process.ask({ do: 'package', ...tool, registry: this.#registry, integrity, into }, z.unknown());
      await process.end();
      await placeTool(tool, into, path);
    });
  }
}
