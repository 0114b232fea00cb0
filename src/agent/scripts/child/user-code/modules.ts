import { readFileSync, statSync } from 'node:fs';
import { createRequire, type SourceMap } from 'node:module';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { constants, Script } from 'node:vm';
import type { Compiled, Compiler } from './compile.ts';
import type { Place, UserFiles } from './files.ts';

/** Something that a script asked for is not there. */
export class Missing extends Error {
  /** Of the import statement that asked for it; a call is in the stack. */
  place: Place | undefined;
}

interface UserModule {
  exports: unknown;
  /** Until it has run. */
  running: Promise<void> | undefined;
}

/** Tried in this order after a path as it is written. */
const ENDINGS = ['.js', '.ts', '.mjs', '.cjs', '.mts', '.cts', '.json', '.tsx', '.jsx'];

/**
 * The user's files as modules, each run once for setup and teardown together: `require` and `import`,
 * CommonJS, ES syntax and TypeScript in any mixture. Packages come from the runtime, by Node itself.
 */
export class Modules {
  readonly #files: UserFiles;
  readonly #compiler: Compiler;
  readonly #runtimeId: string;
  readonly #modules = new Map<string, UserModule>();
  /** Packages that can only be imported, as far as import statements have named them. */
  readonly #imported = new Map<string, unknown>();
  readonly #maps = new Map<string, SourceMap>();
  /** What runs first: a script may ask whether it was called itself. */
  #main: UserModule | undefined;

  constructor(files: UserFiles, compiler: Compiler, runtimeId: string) {
    this.#files = files;
    this.#compiler = compiler;
    this.#runtimeId = runtimeId;
  }

  mapOf(path: string): SourceMap | undefined {
    return this.#maps.get(path);
  }

  /** Runs a script, also one that ran before. */
  async run(entry: string): Promise<void> {
    this.#main = { exports: {}, running: undefined };
    await this.#start(join(this.#files.root, entry), this.#main, []);
  }

  /** @param importers those that wait for it: a circle gets what is there so far */
  async #start(file: string, module: UserModule, importers: readonly string[]): Promise<void> {
    const compiled = this.#compile(file);
    for (const specifier of compiled.imports) {
      await this.#prepare(specifier, file, [...importers, file]).catch((error: unknown) => {
        if (error instanceof Missing) error.place ??= this.#placeOf(specifier, file);
        throw error;
      });
    }
    await this.#call(compiled, file, module);
  }

  /** The statement that names a module. */
  #placeOf(specifier: string, file: string): Place | undefined {
    const lines = readFileSync(file, 'utf8').split('\n');
    const index = lines.findIndex(
      (line) => line.includes(`'${specifier}'`) || line.includes(`"${specifier}"`),
    );
    return index < 0 ? undefined : { file: this.#files.shown(file), line: index + 1, column: 1 };
  }

  #compile(file: string): Compiled {
    const compiled = this.#compiler.compile(readFileSync(file, 'utf8'), file);
    if (compiled.map === null) this.#maps.delete(file);
    else this.#maps.set(file, compiled.map);
    return compiled;
  }

  #call(compiled: Compiled, file: string, module: UserModule): unknown {
    const require = Object.assign((specifier: unknown) => this.#require(specifier, file), {
      resolve: (specifier: string) => this.#fileOf(specifier, file) ?? nativeRequire(file).resolve(specifier),
      cache: {},
      main: this.#main,
    });
    const load = (specifier: unknown): Promise<unknown> => this.#import(String(specifier), file);
    const meta = { url: pathToFileURL(file).href, filename: file, dirname: dirname(file) };
    const { exports } = module;
    return compiled.start.call(exports, exports, require, module, file, dirname(file), load, meta);
  }

  /**
   * What an import statement names is there before its module runs: it may await at its top level, or be a
   * package that this Node cannot require. A package that is missing is the statement's own to report, since
   * nothing asks for it when only its types are used.
   */
  async #prepare(specifier: string, from: string, importers: readonly string[]): Promise<void> {
    const file = this.#fileOf(specifier, from);
    if (file !== undefined) {
      if (!importers.includes(file)) await this.#loadLater(file, importers);
      return;
    }
    try {
      nativeRequire(from)(specifier);
    } catch (error) {
      if (!isOnlyImportable(error)) return;
      const namespace = await importerOf(from)(specifier);
      this.#imported.set(specifier, { __esModule: true, ...Object(namespace) });
    }
  }

  #require(specifier: unknown, from: string): unknown {
    if (typeof specifier !== 'string') throw new TypeError('require wants the name of a module');
    if (this.#imported.has(specifier)) return this.#imported.get(specifier);
    const file = this.#fileOf(specifier, from);
    if (file !== undefined) return this.#loadNow(file);
    try {
      return nativeRequire(from)(specifier);
    } catch (error) {
      throw this.#explained(error, specifier);
    }
  }

  async #import(specifier: string, from: string): Promise<unknown> {
    const file = this.#fileOf(specifier, from);
    if (file === undefined) {
      return importerOf(from)(specifier).catch((error: unknown) => {
        throw this.#explained(error, specifier);
      });
    }
    const exports = await this.#loadLater(file, []);
    const isNamespace = typeof exports === 'object' && exports !== null && '__esModule' in exports;
    return isNamespace ? exports : { ...Object(exports), default: exports };
  }

  #loadNow(file: string): unknown {
    const known = this.#modules.get(file);
    if (known !== undefined) return known.exports;
    if (file.endsWith('.json')) return JSON.parse(readFileSync(file, 'utf8')) as unknown;
    const compiled = this.#compile(file);
    if (compiled.isAsync) {
      const name = this.#files.shown(file);
      throw new Missing(`${name} awaits at its top level, so it cannot be required; use import`);
    }
    const module: UserModule = { exports: {}, running: undefined };
    this.#modules.set(file, module);
    try {
      this.#call(compiled, file, module);
    } catch (error) {
      this.#modules.delete(file);
      throw error;
    }
    return module.exports;
  }

  async #loadLater(file: string, importers: readonly string[]): Promise<unknown> {
    const known = this.#modules.get(file);
    if (known === undefined && file.endsWith('.json')) return this.#loadNow(file);
    const module = known ?? { exports: {}, running: undefined };
    if (known === undefined) {
      this.#modules.set(file, module);
      module.running = this.#start(file, module, importers).catch((error: unknown) => {
        this.#modules.delete(file);
        throw error;
      });
    }
    await module.running;
    return module.exports;
  }

  /** The user's file that is meant; undefined for what is no path among them. @throws Missing */
  #fileOf(specifier: string, from: string): string | undefined {
    if (!/^\.\.?(\/|$)/.test(specifier)) return isAbsolute(specifier) ? this.#ownFile(specifier) : undefined;
    const path = resolve(dirname(from), specifier);
    const found = this.#ownFile(path) ?? this.#snippet(specifier);
    if (found !== undefined) return found;
    throw new Missing(`${specifier} is not among the files of the check`);
  }

  #ownFile(path: string): string | undefined {
    if (!this.#files.has(path)) return undefined;
    const candidates = [
      path,
      ...ENDINGS.map((ending) => path + ending),
      // TypeScript is written with the endings that it gets when it is translated.
      path.replace(/\.([cm]?)jsx?$/, '.$1ts'),
      ...ENDINGS.map((ending) => join(path, `index${ending}`)),
    ];
    return candidates.find(isFile);
  }

  /** Snippets are found from everywhere, since those who write them know no folders. */
  #snippet(specifier: string): string | undefined {
    const name = /^(?:\.\.?\/)+snippets\/(.+)$/.exec(specifier)?.[1];
    return name === undefined ? undefined : this.#ownFile(join(this.#files.root, 'snippets', name));
  }

  #explained(error: unknown, specifier: string): unknown {
    if (!(error instanceof Error) || !('code' in error)) return error;
    const isMissing = error.code === 'MODULE_NOT_FOUND' || error.code === 'ERR_MODULE_NOT_FOUND';
    const name = /^(@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;
    const [first = ''] = error.message.split('\n');
    if (!isMissing || !(first.includes(`'${specifier}'`) || first.includes(`'${name}'`))) return error;
    return new Missing(
      name === specifier
        ? `there is no package ${name} in runtime ${this.#runtimeId}`
        : `there is no ${specifier} in the packages of runtime ${this.#runtimeId}`,
    );
  }
}

const nativeRequire = (from: string): NodeJS.Require => createRequire(from);

/** Node's own import as it works in that file. */
function importerOf(from: string): (specifier: string) => Promise<unknown> {
  const script = new Script('(specifier) => import(specifier)', {
    filename: from,
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  return script.runInThisContext() as (specifier: string) => Promise<unknown>;
}

const isOnlyImportable = (error: unknown): boolean =>
  error instanceof Error &&
  'code' in error &&
  (error.code === 'ERR_REQUIRE_ESM' || error.code === 'ERR_REQUIRE_ASYNC_MODULE');

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
