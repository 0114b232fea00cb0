import { inspect, stripVTControlCharacters } from 'node:util';
import type { ScriptError } from '../../protocol.ts';
import { Misspelled } from './compile.ts';
import { OWN_FOLDER, type Place, type UserFiles } from './files.ts';
import { Missing, type Modules } from './modules.ts';

/** Something that a script left is not what it must be. */
export class Unusable extends Error {}

/** Far above what is shown: the agent cuts again, after secrets are masked, so that no half of one is left. */
const MAX_MESSAGE_CHARS = 32_000;
const MAX_REASON_CHARS = 16_000;
const MAX_STACK_CHARS = 64_000;
/** User code is often deep below its packages. */
const STACK_DEPTH = 50;

/** What user code throws, in the words of its author's files. */
export class Errors {
  readonly #files: UserFiles;
  readonly #modules: Modules;
  /** The innermost place in the user's files that an error passed. */
  readonly #places = new WeakMap<object, Place>();

  constructor(files: UserFiles, modules: Modules) {
    this.#files = files;
    this.#modules = modules;
  }

  /** From now on every stack shows the user's files as they were written, and no frame of ours. */
  install(): void {
    Error.stackTraceLimit = STACK_DEPTH;
    Error.prepareStackTrace = (error, frames) => this.#stackOf(error, frames);
  }

  /** @param title as a sentence calls the script: `setup script` */
  explain(thrown: unknown, title: string): ScriptError {
    if (isA(Misspelled, thrown)) return this.#syntaxError(thrown, title);
    if (isA(Unusable, thrown)) return { message: `after the ${title}, ${thrown.message}` };
    const message = namingWalls(this.#files.clean(`the ${title} failed: ${describe(thrown)}`));
    const stack = stackOf(thrown);
    const place = this.#placeOfThrown(thrown);
    return {
      message: message.slice(0, MAX_MESSAGE_CHARS),
      ...(stack === undefined
        ? {}
        : { stack: this.#files.clean(stripVTControlCharacters(stack)).slice(0, MAX_STACK_CHARS) }),
      ...place,
    };
  }

  /** Where the user's code is just now. */
  here(): Place | undefined {
    const error = new Error();
    const { stack } = error;
    return stack === undefined ? undefined : (this.#places.get(error) ?? this.#placeIn(stack));
  }

  #placeOfThrown(thrown: unknown): Place | undefined {
    if (isA(Missing, thrown) && thrown.place !== undefined) return thrown.place;
    const known = isObject(thrown) ? this.#places.get(thrown) : undefined;
    return known ?? this.#placeIn(stackOf(thrown) ?? '');
  }

  /** Where stacks are written by somebody else: Playwright's runner. */
  #placeIn(stack: string): Place | undefined {
    for (const [, path, line, column] of stack.matchAll(/(\/[^\n():]+):(\d+):(\d+)/g)) {
      const file = this.#files.isShown(path!)
        ? path!
        : this.#files.has(path!)
          ? this.#files.shown(path!)
          : '';
      if (file !== '') return { file, line: Number(line), column: Number(column) };
    }
    return undefined;
  }

  #syntaxError({ message, file, line, column }: Misspelled, title: string): ScriptError {
    const where = { file: this.#files.shown(file), ...(line && { line }), ...(column && { column }) };
    return { message: `the ${title} has a syntax error: ${message}`, ...where };
  }

  #stackOf(error: Error, frames: NodeJS.CallSite[]): string {
    const lines = frames.flatMap((frame) => {
      const path = pathOf(frame);
      if (path === '' || path.startsWith(OWN_FOLDER) || path.startsWith('node:')) return [];
      const place = this.#placeOf(frame, path);
      const isOfUser = this.#files.has(path);
      if (isOfUser && !this.#places.has(error)) this.#places.set(error, place);
      // As Node writes them, since Playwright looks for its own. Paths are cleaned where a stack is shown.
      return [`\n    at ${isOfUser ? lineOf(frame, place) : asNodeDoes(frame)}`];
    });
    return `${headline(error)}${lines.join('')}`;
  }

  #placeOf(frame: NodeJS.CallSite, path: string): Place {
    const [line, column] = [frame.getLineNumber() ?? 1, frame.getColumnNumber() ?? 1];
    const origin = this.#modules.mapOf(path)?.findEntry(line - 1, column - 1);
    const file = this.#files.shown(path);
    if (origin === undefined || !('originalLine' in origin)) return { file, line, column };
    return { file, line: origin.originalLine + 1, column: origin.originalColumn + 1 };
  }
}

function lineOf(frame: NodeJS.CallSite, { file, line, column }: Place): string {
  const name = frame.getFunctionName();
  const words = [frame.isAsync() ? 'async' : '', frame.isConstructor() ? 'new' : '', name ?? ''];
  const at = `${file}:${line}:${column}`;
  return name === null ? at : `${words.filter((word) => word !== '').join(' ')} (${at})`;
}

const asNodeDoes = (frame: { toString(): string }): string => frame.toString();

function pathOf(frame: NodeJS.CallSite): string {
  const name = frame.getFileName() ?? '';
  return name.startsWith('file://') ? decodeURIComponent(name.slice('file://'.length)) : name;
}

/** Asking a proxy what it is runs its author's code. */
function isA<T>(kind: new (...args: never[]) => T, thrown: unknown): thrown is T {
  try {
    return thrown instanceof kind;
  } catch {
    return false;
  }
}

/** What no script may do, in the words of the system alone. */
export const namingWalls = (message: string): string =>
  message.replace(
    /\blisten E(ACCES|PERM): [^\n(]*/,
    (text) => `${text.trimEnd()} (scripts may not listen for connections)`,
  );

/** One line. Anything may be thrown, also what throws when it is looked at. */
export function describe(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return `it threw ${shortly(thrown)}, which is no Error`;
    const message = [messageOf(thrown), ...causesOf(thrown)].filter((part) => part !== '').join(': ');
    const isPlain = thrown.name === 'Error' || thrown instanceof Missing;
    const text = isPlain ? message : `${thrown.name}: ${message}`;
    return text === '' ? 'it threw an Error without a message' : text;
  } catch {
    return 'it threw something that cannot be shown';
  }
}

const shortly = (value: unknown): string =>
  inspect(value, { depth: 1, breakLength: Infinity, maxStringLength: 10_000, maxArrayLength: 10 }).slice(
    0,
    MAX_REASON_CHARS,
  );

/** Of several lines, as assertion libraries write them, one. */
function messageOf(error: Error): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(describe).join('; ');
  const [text = ''] = stripVTControlCharacters(String(error.message)).split('\nRequire stack:');
  const lines = text.split('\n').map((line) => line.trim());
  return lines
    .filter((line) => line !== '')
    .join(' ')
    .slice(0, MAX_REASON_CHARS);
}

/** `fetch failed` says nothing without its cause. */
function causesOf(error: Error): string[] {
  const causes: string[] = [];
  let { cause } = error;
  while (cause instanceof Error && causes.length < 3) {
    causes.push(messageOf(cause));
    ({ cause } = cause);
  }
  return causes;
}

function stackOf(thrown: unknown): string | undefined {
  try {
    return thrown instanceof Error && typeof thrown.stack === 'string' ? thrown.stack : undefined;
  } catch {
    return undefined;
  }
}

function headline(error: Error): string {
  try {
    // Node puts the code of its assertions in twice.
    return `${error}`.replace(/( \[\w+\])\1/, '$1');
  } catch {
    return 'Error';
  }
}

const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function';
