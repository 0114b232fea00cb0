import { z } from 'zod';
import { frequencyOf } from './check.ts';
import { playwrightConfig } from './playwright-config.ts';

/** Of script and dependencies together, as JSON: a job travels in one message of 1 MiB with its other fields. */
export const MAX_CODE_BYTES = 800_000;
const MAX_FILES = 200;
const MAX_PATH = 200;
const MAX_DEPTH = 12;
/** Where a script without a path lies; its author sees `/script.js`. */
export const DEFAULT_SCRIPT_PATH = 'script.js';

/** Wall clock of a whole browser or multistep run, ms. */
export const SCRIPT_TIMEOUT_MS = 240_000;

/** A file among those of a script: below one folder, whatever it is written into. */
export const scriptFilePath = z
  .string()
  .transform((path) => path.replace(/^(\.\/)+/, ''))
  .pipe(
    z
      .string()
      .min(1, 'must not be empty')
      .max(MAX_PATH)
      .regex(/^[^\p{C}\\]*$/u, 'must have no backslashes and no control characters')
      .refine((path) => !path.startsWith('/'), 'must be relative: without a leading /')
      .refine((path) => !path.endsWith('/'), 'must name a file, not a folder')
      .refine((path) => isPlain(path.split('/')), 'must have no empty parts, no . and no ..')
      .refine((path) => path.split('/').length <= MAX_DEPTH, `must be at most ${MAX_DEPTH} folders deep`),
  );

const isPlain = (parts: readonly string[]): boolean =>
  parts.every((part) => part !== '' && part !== '.' && part !== '..');

/**
 * What browser and multistep checks share. A dependency whose path ends as an image's may be given as
 * `data:image/png;base64,…`: the expected pictures of visual comparisons.
 */
export const scriptFields = {
  script: z.string().nullable(),
  scriptPath: scriptFilePath.nullable().default(null),
  dependencies: z
    .array(z.strictObject({ path: scriptFilePath, content: z.string() }))
    .max(MAX_FILES)
    .nullable()
    .default(null),
  playwrightConfig,
  /** From a minute on: one run may take four. */
  frequency: frequencyOf(1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440),
};

interface Code {
  script: string | null;
  scriptPath: string | null;
  dependencies: readonly { path: string; content: string }[] | null;
}

/** What no single field can say. */
export function codeProblems({ script, scriptPath, dependencies }: Code): [field: string, message: string][] {
  const files = dependencies ?? [];
  const paths = files.map(({ path }) => path);
  const own = scriptPath ?? DEFAULT_SCRIPT_PATH;
  const problems: [string, string][] = [];
  if (script === null && !paths.includes(own)) {
    problems.push(['script', 'may be null only when scriptPath names one of the dependencies']);
  }
  if (script !== null && paths.includes(own)) {
    problems.push(['dependencies', `${own} is the script itself`]);
  }
  const all = script === null ? paths : [own, ...paths];
  const twice = paths.find((path, index) => paths.indexOf(path) !== index);
  if (twice !== undefined) problems.push(['dependencies', `${twice} is there twice`]);
  const folder = all.find((path) => all.some((other) => other.startsWith(`${path}/`)));
  if (folder !== undefined) problems.push(['dependencies', `${folder} is a file and a folder`]);
  const bytes = Buffer.byteLength(JSON.stringify([script, files]));
  if (bytes > MAX_CODE_BYTES) {
    problems.push([
      'script',
      `has ${bytes} bytes together with its dependencies; at most ${MAX_CODE_BYTES} are allowed`,
    ]);
  }
  return problems;
}
