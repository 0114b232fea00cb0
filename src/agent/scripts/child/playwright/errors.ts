import { stripVTControlCharacters } from 'node:util';
import type { ScriptError } from '../../protocol.ts';
import { namingBrowserFailure } from '../network.ts';
import { namingWalls, type UserFiles } from '../user-code/index.ts';
import type { Location } from './reporter.ts';

/** An error as Playwright Test reports it. */
export interface TestError {
  message?: string;
  stack?: string;
  value?: string;
  location?: Location | undefined;
}

/** Far above what is shown: the agent cuts again, after secrets are masked, so that no half of one is left. */
const MAX_MESSAGE_CHARS = 32_000;
const MAX_STACK_CHARS = 64_000;

/**
 * What went wrong in a test, in the words of its author's files.
 *
 * @param near what was under way, for an error that does not know its own place
 */
export function explainTestError(
  error: TestError,
  files: UserFiles,
  runtimeId: string,
  near: TestError['location'],
): ScriptError {
  const clean = (text: string): string =>
    namingWalls(files.clean(namingBrowserFailure(stripVTControlCharacters(text))));
  const message = wordsFor(
    clean(error.message ?? `it threw ${error.value ?? 'nothing'}, which is no Error`),
    runtimeId,
  );
  const found = placeOf(error, files);
  const place = found.file === undefined ? placeOf({ location: near }, files) : found;
  return {
    message: message.slice(0, MAX_MESSAGE_CHARS),
    ...(error.stack === undefined
      ? {}
      : { stack: withoutRequirers(clean(error.stack)).slice(0, MAX_STACK_CHARS) }),
    ...place,
  };
}

/** Who wanted the module is Playwright, in nine files. */
const withoutRequirers = (stack: string): string => stack.replace(/\nRequire stack:(\n- .*)+/, '');

function wordsFor(message: string, runtimeId: string): string {
  const [text = ''] = message.replace(/^Error: /, '').split('\nRequire stack:');
  const misspelled = /^SyntaxError: \/[^\n]*?: ([^\n]*) \(\d+:\d+\)(\n|$)/.exec(text)?.[1];
  if (misspelled !== undefined) return `the script has a syntax error: ${misspelled}`;
  const missing = /^Cannot find (?:module|package) '([^'./][^']*)'/.exec(text)?.[1];
  if (missing !== undefined) return `there is no package ${missing} in runtime ${runtimeId}`;
  const file = /^Cannot find module '(\.[^']*)'/.exec(text)?.[1];
  return file === undefined ? text : `${file} is not among the files of the check`;
}

function placeOf({ location, stack, message }: TestError, files: UserFiles): Partial<ScriptError> {
  const misspelled = placeOfSyntaxError(stripVTControlCharacters(message ?? ''), files);
  if (misspelled !== undefined) return misspelled;
  if (location !== undefined && files.has(location.file)) {
    const { file, line, column } = location;
    return { file: files.shown(file), line, column };
  }
  for (const text of [stack, message]) {
    for (const [, file, line, column] of (text ?? '').matchAll(/(?:file:\/\/)?(\/[^\n():]+):(\d+):(\d+)/g)) {
      if (files.has(file!)) return { file: files.shown(file!), line: Number(line), column: Number(column) };
    }
  }
  return {};
}

/** Babel names the place in its message, `SyntaxError: /path/script.js: … (3:7)`, and counts columns from 0. */
function placeOfSyntaxError(message: string, files: UserFiles): Partial<ScriptError> | undefined {
  const [, file = '', line, column] =
    /^SyntaxError: (\/[^\n():]+): [^\n]*\((\d+):(\d+)\)/.exec(message) ?? [];
  if (!files.has(file)) return undefined;
  return { file: files.shown(file), line: Number(line), column: Number(column) + 1 };
}
