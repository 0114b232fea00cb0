import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median } from './measure.ts';
import type { Row } from './report.ts';
import type { ScrubFigures } from './scrub-worker.ts';

const SECRETS = 100;
const LARGE_MB = 150;
const SMALL_MB = 15;
const HOSTILE_MB = 40;
const ROUNDS = 3;
/** Goal 16: what a scrub may add to an idle Node, MB. */
const ROOM_MB = 40;

/** Scrubbing a file to a file against searching it only, with ripgrep and grep: megabytes per CPU second. */
export function benchScrub(): Row[] {
  if (spawnSync('rg', ['--version']).error) {
    console.log('scrub skipped: not installed: ripgrep');
    return [];
  }
  const folder = mkdtempSync(join(tmpdir(), 'vedette-bench-'));
  try {
    const corpus = prepare(folder);
    const large = rounds(() => scrub(corpus.large, folder));
    const rg = rounds(() => search('rg', ['-o', '-b', '-a', '-F', '-f'], corpus.forms, corpus.large));
    const grep = rounds(() => search('grep', ['-c', '-a', '-F', '-f'], corpus.forms, corpus.large));
    const hostile = rounds(() => scrub(corpus.hostile, folder));
    const rgHostile = rounds(() =>
      search('rg', ['-o', '-b', '-a', '-F', '-f'], corpus.forms, corpus.hostile),
    );
    const small = rounds(() => scrub(corpus.small, folder));
    const row = (name: string, ours: number, theirs: number, peer: string): Row => ({
      name,
      ours: `${ours.toFixed(0)} MB/CPU s`,
      peer: `${theirs.toFixed(0)} MB/CPU s (${peer})`,
      ratio: ours / theirs,
    });
    const [ours, theirs] = [speed(large, LARGE_MB), speed(rg, LARGE_MB)];
    return [
      { ...row('scrub file to file, 600 forms', ours, theirs, 'rg -o'), goal: { atLeast: 1 } },
      row('scrub file to file, 600 forms', ours, speed(grep, LARGE_MB), 'grep -F'),
      {
        ...row('scrub of prefixes only', speed(hostile, HOSTILE_MB), speed(rgHostile, HOSTILE_MB), 'rg -o'),
        goal: { atLeast: 1 },
      },
      memoryRow(`${LARGE_MB} MB`, large),
      memoryRow(`${SMALL_MB} MB`, small),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function memoryRow(size: string, figures: readonly ScrubFigures[]): Row {
  const addedMb = median(figures.map((each) => each.addedMb));
  return {
    name: `scrub: memory over idle node, ${size}`,
    ours: `+${addedMb.toFixed(0)} MB`,
    peer: `${ROOM_MB} MB (allowed)`,
    ratio: addedMb / ROOM_MB,
    goal: { atMost: 1 },
  };
}

function rounds<T>(measure: () => T): T[] {
  return Array.from({ length: ROUNDS }, measure);
}

const speed = (figures: readonly { cpuMs: number }[], mb: number): number =>
  (mb * 1000) / median(figures.map(({ cpuMs }) => cpuMs));

function scrub(file: string, folder: string): ScrubFigures {
  const worker = new URL('scrub-worker.ts', import.meta.url).pathname;
  const args = [worker, join(folder, 'secrets.json'), file, join(folder, 'out')];
  return JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as ScrubFigures;
}

/** The shell says what CPU its child took, in ms. */
function search(program: string, flags: readonly string[], forms: string, file: string): { cpuMs: number } {
  // Not to /dev/null, for which grep ends at the first hit.
  const script = 'TIMEFORMAT="%3U %3S"; time "$@" > "$0"';
  const found = `${forms}.found`;
  const { stderr } = spawnSync('bash', ['--norc', '-c', script, found, program, ...flags, forms, file], {
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], LC_ALL: 'C' },
  });
  const [user, system] = stderr.trim().split(' ').map(Number);
  return { cpuMs: (user! + system!) * 1000 };
}

interface Corpus {
  forms: string;
  large: string;
  small: string;
  hostile: string;
}

function prepare(folder: string): Corpus {
  const secrets = Array.from({ length: SECRETS }, (_, i) => `s${i}/${hash(`secret ${i}`).slice(0, 18)}`);
  const forms = secrets.flatMap(sixForms);
  const at = (name: string): string => join(folder, name);
  writeFileSync(at('secrets.json'), JSON.stringify(secrets));
  writeFileSync(at('forms'), forms.join('\n'));
  writeLines(at('large'), LARGE_MB, (i) => ordinaryLine(i, forms));
  writeLines(at('small'), SMALL_MB, (i) => ordinaryLine(i, forms));
  writeLines(at('hostile'), HOSTILE_MB, (i) => {
    const form = forms[(i * 7919) % forms.length]!;
    return form.slice(0, form.length - 1 - (i % 5));
  });
  return { forms: at('forms'), large: at('large'), small: at('small'), hostile: at('hostile') };
}

const hash = (text: string): string => createHash('sha256').update(text).digest('base64');

function sixForms(secret: string): string[] {
  const bytes = Buffer.from(secret);
  const shifted = Buffer.from(`x${secret}`).toString('base64').slice(2, -4);
  return [
    secret,
    encodeURIComponent(secret),
    bytes.toString('hex'),
    bytes.toString('base64').slice(0, -4),
    shifted,
    secret.replaceAll('/', '\\/'),
  ];
}

/** JSON of logs, HTML of pages, base64 of pictures; a secret in each 2,000th line. */
function ordinaryLine(i: number, forms: readonly string[]): string {
  if (i % 2000 === 1999)
    return `{"level":"info","text":"token ${forms[((i / 7) % forms.length) | 0]} was used"}\n`;
  if (i % 3 === 0)
    return `{"level":"info","time":${1.7e12 + i},"url":"https://shop.example/cart/${i}","status":200}\n`;
  if (i % 3 === 1)
    return `<li class="item item-${i}"><a href="/products/${i}?ref=list">Product ${i}</a></li>\n`;
  return `${hash(String(i))}${hash(`second ${i}`)}\n`;
}

/** Written in turn from a block of lines, which is enough for any cache to be of no use. */
function writeLines(path: string, mb: number, line: (i: number) => string): void {
  const file = openSync(path, 'w');
  let text = '';
  for (let i = 0; text.length < Math.min(mb, 20) * 1e6; i++) text += line(i);
  const block = Buffer.from(text);
  for (let written = 0; written < mb * 1e6; written += block.length) writeSync(file, block);
  closeSync(file);
  if (statSync(path).size < mb * 1e6) throw new Error(`${path} could not be written`);
}
