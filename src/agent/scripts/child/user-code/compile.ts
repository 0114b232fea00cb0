import { createRequire, SourceMap } from 'node:module';
import { join } from 'node:path';
import { constants, Script } from 'node:vm';

/** The parameters of every module. The last two stand in for `import()` and `import.meta`. */
export type ModuleFunction = (
  exports: unknown,
  require: unknown,
  module: unknown,
  filename: string,
  dirname: string,
  load: (specifier: unknown) => Promise<unknown>,
  meta: object,
) => unknown;

export interface Compiled {
  start: ModuleFunction;
  /** It awaits at its top level: what `start` returns is a promise. */
  isAsync: boolean;
  /** Modules that its import statements name. */
  imports: string[];
  /** From what runs to what was written; null where these are the same. */
  map: SourceMap | null;
}

/** Where a file cannot be understood. Lines and columns start with 1. */
export class Misspelled extends SyntaxError {
  readonly file: string;
  readonly line: number | undefined;
  readonly column: number | undefined;
  constructor(message: string, file: string, line: number | undefined, column: number | undefined) {
    super(message);
    this.file = file;
    this.line = line;
    this.column = column;
  }
}

/**
 * As long as the words that they replace, so that nothing moves: `import(…)` goes through our loader, which
 * finds `./util` as `util.ts`, and `import.meta` is known outside of modules, too.
 */
const LOAD = '$mport';
const META = '$mport$meta';
const PARAMETERS = `(exports, require, module, __filename, __dirname, ${LOAD}, ${META}) {`;
const SYNC_HEAD = `(function ${PARAMETERS}`;
const ASYNC_HEAD = `(async function ${PARAMETERS}`;
const TAIL = '\n})';

/** Babel, as Playwright brings it along for its tests: part of every runtime. */
interface Babel {
  babelParse(code: string, file: string, isModule: boolean): unknown;
  babelTransform(
    code: string,
    file: string,
    isModule: boolean,
    before: [],
    after: [],
  ): { code: string; map: ConstructorParameters<typeof SourceMap>[0] };
}

/**
 * Makes functions of the user's files. JavaScript in the manner of CommonJS runs as it is written, awaits at
 * the top level included; import statements and TypeScript are translated first.
 */
export class Compiler {
  readonly #modules: string;
  #found: { babel: Babel | undefined } | undefined;

  constructor(modules: string) {
    this.#modules = modules;
  }

  /** While nobody waits: Babel takes 80 ms to load, its first translation 100 ms, the next 15. */
  warm(): void {
    if (this.#babel !== undefined) this.#translate(`import a from 'a'; let b: number = await a;`, 'warm.ts');
  }

  get #babel(): Babel | undefined {
    this.#found ??= { babel: findBabel(this.#modules) };
    return this.#found.babel;
  }

  /** @throws Misspelled */
  compile(source: string, file: string): Compiled {
    const code = source.replace(/^\uFEFF/, '').replace(/^#!.*/, '');
    let asWritten: Misspelled | undefined;
    if (!/\.[cm]?tsx?$/.test(file)) {
      try {
        return { ...this.#functionOf(this.#withLoader(code, file).code, file), imports: [], map: null };
      } catch (error) {
        asWritten = misspelled(error, file);
      }
    }
    try {
      return this.#translate(code, file);
    } catch (error) {
      throw laterOf(asWritten, misspelled(error, file));
    }
  }

  #translate(source: string, file: string): Compiled {
    if (this.#babel === undefined) {
      throw new Misspelled('import statements and TypeScript need a runtime with Playwright', file, 1, 1);
    }
    const { code, imports } = this.#withLoader(source, file);
    const translated = this.#babel.babelTransform(code, asTypeScript(file), false, [], []);
    const plain = translated.code.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '');
    return { ...this.#functionOf(plain, file), imports, map: new SourceMap(translated.map) };
  }

  #functionOf(code: string, file: string): Pick<Compiled, 'start' | 'isAsync'> {
    try {
      return { start: evaluated(SYNC_HEAD, code, file), isAsync: false };
    } catch (error) {
      if (!(error instanceof SyntaxError) || !/\bawait\b/.test(code)) throw error;
      return { start: evaluated(ASYNC_HEAD, code, file), isAsync: true };
    }
  }

  /** A text that cannot be parsed stays as it is: whoever compiles it says why. */
  #withLoader(code: string, file: string): { code: string; imports: string[] } {
    if (!/\bimport\b|\bfrom\b/.test(code) || this.#babel === undefined) return { code, imports: [] };
    try {
      return rewritten(code, this.#babel.babelParse(code, asTypeScript(file), false));
    } catch {
      return { code, imports: [] };
    }
  }
}

/** Types are understood in any file: nobody says of a script in a form which language it is in. */
const asTypeScript = (file: string): string => (/\.[jt]sx$/.test(file) ? `${file}.tsx` : `${file}.ts`);

function findBabel(modules: string): Babel | undefined {
  const require = createRequire(join(modules, 'index.js'));
  try {
    return require(join(modules, 'playwright/lib/transform/babelBundleImpl.js')) as Babel;
  } catch {
    return undefined;
  }
}

function evaluated(head: string, code: string, file: string): ModuleFunction {
  const script = new Script(head + code + TAIL, {
    filename: file,
    columnOffset: -head.length,
    // For what is not rewritten: code in eval.
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  return script.runInThisContext() as ModuleFunction;
}

interface SyntaxNode {
  type: string;
  start: number;
  end: number;
  importKind?: string;
  source?: { value: unknown } | null;
}

function rewritten(code: string, program: unknown): { code: string; imports: string[] } {
  const imports: string[] = [];
  const pieces: string[] = [];
  let done = 0;
  const inOrder = [...nodesOf(program)].sort((a, b) => a.start - b.start);
  for (const { type, start, end, source, importKind } of inOrder) {
    const word = type === 'Import' ? LOAD : type === 'MetaProperty' && code[start] === 'i' ? META : undefined;
    if (word !== undefined) {
      pieces.push(code.slice(done, start), word.padEnd(end - start));
      done = end;
    } else if (/^(Import|Export(Named|All))Declaration$/.test(type) && importKind !== 'type') {
      if (typeof source?.value === 'string') imports.push(source.value);
    }
  }
  return { code: pieces.join('') + code.slice(done), imports };
}

function* nodesOf(tree: unknown): Generator<SyntaxNode> {
  if (typeof tree !== 'object' || tree === null) return;
  if ('type' in tree && 'start' in tree) yield tree as SyntaxNode;
  for (const [name, child] of Object.entries(tree)) {
    if (typeof child === 'object' && name !== 'loc' && !name.endsWith('omments') && name !== 'tokens') {
      yield* nodesOf(child);
    }
  }
}

/** Of two readers the one that came further understood the text better. */
function laterOf(first: Misspelled | undefined, second: Misspelled): Misspelled {
  if (first?.line === undefined || second.line === undefined) return first ?? second;
  const isLater = first.line > second.line || (first.line === second.line && first.column! > second.column!);
  return isLater ? first : second;
}

/** V8 writes the place above the message, Babel into it. */
function misspelled(error: unknown, file: string): Misspelled {
  if (error instanceof Misspelled) return error;
  if (!(error instanceof SyntaxError)) throw error;
  const { loc } = error as { loc?: { line: number; column: number } };
  if (loc !== undefined) {
    const message = error.message
      .split('\n')[0]!
      .replace(/^\/.*?\.tsx?: /, '')
      .replace(/ ?\(\d+:\d+\)$/, '');
    return new Misspelled(message, file, loc.line, loc.column + 1);
  }
  const [place = '', , marks = ''] = (error.stack ?? '').split('\n');
  const line = /:(\d+)$/.exec(place)?.[1];
  const column = marks.indexOf('^') + 1;
  return new Misspelled(error.message, file, line === undefined ? undefined : Number(line), column || 1);
}
