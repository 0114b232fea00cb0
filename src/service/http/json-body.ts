import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { invalid, Refusal } from '../verbs/index.ts';

/** Deeper than any real body, shallow enough for every recursive reader behind. */
const MAX_DEPTH = 32;
/** A check with 100 variables and long header lists has about 2,000. */
const MAX_VALUES = 20_000;

/** Of a body that came packed, bytes. */
const MAX_UNPACKED_BYTES = 8 * 1024 * 1024;

const inflate = promisify(gunzip);

/** @throws Refusal for what gzip did not pack, and for what would be larger than anybody needs */
export async function unpacked(raw: Buffer, headers: IncomingHttpHeaders): Promise<Buffer> {
  if (headers['content-encoding'] !== 'gzip') return raw;
  try {
    return await inflate(raw, { maxOutputLength: MAX_UNPACKED_BYTES });
  } catch (error) {
    if (codeOf(error) !== 'ERR_BUFFER_TOO_LARGE') throw invalid(['body: is not packed by gzip']);
    throw new Refusal('tooLarge', `body: has more than ${MAX_UNPACKED_BYTES} bytes when it is unpacked`);
  }
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * The value of a JSON body; undefined for an empty one.
 *
 * @throws Refusal `invalid` for anything that is not JSON in UTF-8, or that cannot be stored
 */
export function readJson(raw: Buffer): unknown {
  const text = decode(raw);
  if (text.trim() === '') return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw invalid([`body: is not JSON: ${messageOf(error)}`]);
  }
  assertStorable(value, 'body');
  return value;
}

function decode(raw: Buffer): string {
  try {
    return utf8.decode(raw);
  } catch {
    throw invalid(['body: must be UTF-8']);
  }
}

/**
 * Refuses what the store cannot keep (NUL and lone surrogates, in text and in names), names that would
 * reach an object's prototype, and shapes made to exhaust whoever walks them.
 */
export function assertStorable(root: unknown, where: string): void {
  const open: { value: unknown; path: string; depth: number }[] = [{ value: root, path: where, depth: 0 }];
  let values = 0;
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (typeof at.value === 'string') assertText(at.value, at.path);
    if (typeof at.value !== 'object' || at.value === null) continue;
    if (at.depth === MAX_DEPTH) throw invalid([`${where}: is nested more than ${MAX_DEPTH} levels deep`]);
    const isList = Array.isArray(at.value);
    for (const [name, value] of Object.entries(at.value)) {
      if (++values > MAX_VALUES) throw invalid([`${where}: has more than ${MAX_VALUES} values`]);
      if (!isList) assertName(name, at.path);
      if (typeof value === 'string') assertText(value, `${at.path}.${name}`);
      else if (typeof value === 'object') {
        open.push({ value, path: `${at.path}.${name}`, depth: at.depth + 1 });
      }
    }
  }
}

function assertText(text: string, path: string): void {
  if (text.includes('\0')) throw invalid([`${path.slice(0, 200)}: must not contain the NUL character`]);
  if (!text.isWellFormed()) throw invalid([`${path.slice(0, 200)}: must be well-formed Unicode text`]);
}

function assertName(name: string, path: string): void {
  if (name === '__proto__') throw invalid([`${path.slice(0, 200)}: must not have the field __proto__`]);
  assertText(name, `a field name in ${path}`);
}
