import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ExecutorFault } from '../ports.ts';
import type { Runtime } from '../runtimes/index.ts';
import type { Project } from './protocol.ts';
import type { Toolbox } from './toolbox.ts';
import type { Tool } from './tools.ts';

export interface Engine {
  name: 'node' | 'bun';
  version: string;
  /** Folders for the PATH, the first first. */
  path: string[];
  /** Files that have to be readable and executable for it. */
  folders: string[];
  /** For installations: where its headers are, for packages that are compiled. */
  variables: Record<string, string>;
  /** What the log should say about the choice. */
  note: string | null;
}

/** Of each major the version that is fetched when none is at hand. */
const NODES: Readonly<Record<number, string>> = { 22: '22.22.0', 24: '24.13.1', 26: '26.2.0' };
const DEFAULT_NODE = 24;
const BUN = '1.3.8';
const NAMED: Readonly<Record<string, number>> = {
  'lts/*': 24,
  'lts/jod': 22,
  'lts/krypton': 24,
  lts: 24,
  node: 26,
  latest: 26,
  current: 26,
};

/** The one that is fetched. */
export const nodeTool = (major: number): Tool => ({
  name: `node-${process.platform}-${process.arch}`,
  version: NODES[major] ?? NODES[DEFAULT_NODE]!,
});

/** Nodes and Buns for suites: those of the runtimes, the agent's own, and what the registry has. */
export class Engines {
  readonly #toolbox: Toolbox;
  readonly #runtimes: () => readonly Runtime[];

  constructor(toolbox: Toolbox, runtimes: () => readonly Runtime[]) {
    this.#toolbox = toolbox;
    this.#runtimes = runtimes;
  }

  /** Files of every Node at hand, and their headers. */
  get readable(): string[] {
    const nodes = [process.execPath, ...this.#runtimes().map(({ node }) => node)];
    return nodes.flatMap((node) => [
      node,
      ...(hasHeaders(node) ? [join(placeOf(node), 'include/node')] : []),
    ]);
  }

  /** @throws ExecutorFault when it is not at hand and cannot be fetched */
  async choose(
    asked: { engine: 'node' | 'bun' | null; engineVersion: string | null },
    { engine: said }: Pick<Project, 'engine'>,
  ): Promise<Engine> {
    const name = asked.engine ?? said?.name ?? 'node';
    const isOwnWord = asked.engine !== null;
    const range = isOwnWord ? asked.engineVersion : (said?.range ?? null);
    const node = await this.#node(majorsOf(name === 'node' ? range : null));
    const note = isOwnWord || said === null ? null : `${said.saidBy} asks for ${said.name} ${said.range}`;
    if (name === 'node') return { ...node, note };
    const version = /^\d+\.\d+\.\d+$/.exec(range ?? '')?.[0] ?? BUN;
    const folder = await this.#toolbox.get(`@oven/bun-${process.platform}-${process.arch}`, version);
    // Playwright itself is a program for Node.
    return { ...node, name, version, path: [`${folder}/commands`, ...node.path], note };
  }

  async #node(wanted: readonly number[]): Promise<Omit<Engine, 'note'>> {
    const atHand = this.#atHand();
    const found = wanted
      .map((major) => atHand.find((each) => each.major === major))
      .find((each) => each !== undefined);
    if (found !== undefined) return engineOf(found.version, found.node);
    const major = wanted[0]!;
    const { name, version } = nodeTool(major);
    try {
      const folder = await this.#toolbox.get(name, version);
      return engineOf(version, `${folder}/bin/node`);
    } catch (error) {
      if (!(error instanceof ExecutorFault)) throw error;
      throw new ExecutorFault(
        'ENGINE_MISSING',
        `Node ${major} is not at hand on this agent and could not be fetched (${error.message}); at hand: ` +
          `${atHand.map((each) => each.version).join(', ')}`,
      );
    }
  }

  #atHand(): { version: string; major: number; node: string }[] {
    // A runtime without a switch for types runs none of our own files.
    const runtimes = this.#runtimes().filter(({ flags }) => flags.length === 0);
    const own = { version: process.versions.node, node: process.execPath };
    return [...runtimes.map(({ node, nodeVersion }) => ({ node, version: nodeVersion })), own].map(
      (each) => ({
        ...each,
        major: Number(each.version.split('.')[0]),
      }),
    );
  }
}

const engineOf = (version: string, node: string): Omit<Engine, 'note'> => ({
  name: 'node',
  version,
  path: [dirname(node)],
  folders: [node],
  // Without it node-gyp downloads them from nodejs.org.
  variables: hasHeaders(node) ? { npm_config_nodedir: placeOf(node) } : {},
});

/** With `bin`, and where they came along `include`. */
const placeOf = (node: string): string => join(dirname(node), '..');
const hasHeaders = (node: string): boolean => existsSync(join(placeOf(node), 'include/node/node.h'));

/**
 * The majors that fit, the most wanted first. A range is read as far as majors go; what is older than the
 * oldest gets the oldest, what is newer the newest.
 */
export function majorsOf(range: string | null): number[] {
  const known = Object.keys(NODES).map(Number);
  const oldest = Math.min(...known);
  const newest = Math.max(...known);
  const text = (range ?? '')
    .trim()
    .toLowerCase()
    .replace(/^v(?=\d)/, '');
  if (text === '' || text === '*') return [DEFAULT_NODE];
  const named = NAMED[text];
  if (named !== undefined) return [named];
  const fits = (major: number): boolean =>
    text.split('||').some((part) => {
      const bounds = [...part.matchAll(/(>=|<=|>|<|\^|~|=)?\s*v?(\d+)(?:\.(?:\d+|x|\*))*/g)];
      return (
        bounds.length > 0 && bounds.every(([, sign = '=', number]) => isWithin(major, sign, Number(number)))
      );
    });
  const found = [DEFAULT_NODE, ...known].filter((major) => fits(major));
  if (found.length > 0) return [...new Set(found)];
  const first = Number(/\d+/.exec(text)?.[0] ?? DEFAULT_NODE);
  return [
    first < oldest ? oldest : first > newest ? newest : (known.find((major) => major >= first) ?? newest),
  ];
}

function isWithin(major: number, sign: string, bound: number): boolean {
  if (sign === '>=' || sign === '>') return major >= bound;
  if (sign === '<=') return major <= bound;
  if (sign === '<') return major < bound;
  return major === bound;
}
