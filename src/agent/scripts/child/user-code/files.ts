import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, sep } from 'node:path';

/** Where a place in the user's files is, as their author knows it: `/setup.js`. */
export interface Place {
  file: string;
  line: number;
  column: number;
}

/** The user's files and the runtime's packages, and how their paths are shown: no path of this machine is. */
export class UserFiles {
  /** Folder of the user's files. */
  readonly root: string;
  readonly #modules: readonly string[];
  readonly #folder: string;

  constructor(folder: string, modules: string) {
    this.#folder = real(folder);
    this.root = join(this.#folder, 'src');
    this.#modules = [...new Set([join(this.#folder, 'node_modules'), real(modules), modules])];
  }

  has(path: string): boolean {
    return path.startsWith(this.root + sep);
  }

  /** Whether a path as it is shown may be one of the user's files. */
  isShown(path: string): boolean {
    return isAbsolute(path) && existsSync(join(this.root, path));
  }

  shown(path: string): string {
    if (this.has(path)) return path.slice(this.root.length);
    const modules = this.#modules.find((each) => path.startsWith(each + sep));
    if (modules !== undefined) return `node_modules${path.slice(modules.length)}`;
    return path.startsWith('node:') ? path : basename(path);
  }

  /** Any text with its paths as they are shown. */
  clean(text: string): string {
    let clean = text.includes(OWN_FOLDER) ? text.replace(OWN_FRAMES, '') : text;
    for (const [path, shown] of [
      [`file://${this.root}`, ''],
      [this.root, ''],
      ...this.#modules.map((each) => [each, 'node_modules']),
      [this.#folder, '~'],
    ] as const) {
      if (path !== undefined && clean.includes(path)) clean = clean.replaceAll(path, shown ?? '');
    }
    return clean;
  }
}

/** Our own code: its frames say nothing to the author of a script. */
export const OWN_FOLDER = dirname(import.meta.dirname) + sep;
/** Their lines in a stack, as text and as JSON. */
const OWN_FRAMES = new RegExp(
  String.raw`(?:\n|\\n) +at (?:(?!\\n)[^\n"])*${OWN_FOLDER.replace(/[.+()[\]{}^$*?|\\]/g, String.raw`\$&`)}(?:(?!\\n)[^\n"])*`,
  'g',
);

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
