import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { basename, extname, join, relative } from 'node:path';
import type { LeftFile } from '../../protocol.ts';
import { OWN_FOLDER, type UserFiles } from '../user-code/index.ts';
import { REPORT, RESULTS, TRACES, VIDEOS } from './configuration.ts';

const PICTURES = new Set(['.png', '.jpg', '.jpeg', '.webp']);
/** As helpers write it for us. */
const DEGRADED = 'degraded.json';
const MAX_FILES = 500;
const MAX_DEPTH = 12;
const MAX_REPORT_BYTES = 20 * 1024 * 1024;

/** The files that a run leaves behind, found where Playwright and the script put them. */
export class LeftFiles {
  readonly #folder: string;
  readonly #given: ReadonlySet<string>;

  /** To be made before the script runs: what lies there now is no result. */
  constructor(folder: string) {
    this.#folder = folder;
    this.#given = new Set(filesBelow(join(folder, 'src')));
  }

  /** Paths of the user's own files, below `src`. */
  get given(): string[] {
    return [...this.#given].map((file) => relative(join(this.#folder, 'src'), file));
  }

  /** @param isFinal everything is written: reports and videos, too */
  list(isFinal: boolean): LeftFile[] {
    const own = filesBelow(join(this.#folder, 'src')).filter((file) => !this.#given.has(file));
    const left = [
      ...own.filter((file) => basename(file) !== DEGRADED).map((file) => this.#ownFile(file)),
      ...this.#results(),
    ];
    if (!isFinal) return left.slice(0, MAX_FILES);
    const videos = filesBelow(join(this.#folder, VIDEOS)).map((file) =>
      this.#file(file, 'video', `videos/${basename(file)}`),
    );
    const traces = filesBelow(join(this.#folder, TRACES))
      .filter((file) => file.endsWith('.zip'))
      .map((file) => this.#file(file, 'trace', `traces/${basename(file)}`));
    const report = join(this.#folder, REPORT);
    const reports = isFile(report) ? [this.#file(report, 'report', 'report.json')] : [];
    return [...reports, ...traces, ...videos, ...left].slice(0, MAX_FILES);
  }

  /** Playwright's report without the paths of this machine. */
  cleanReport(files: UserFiles): void {
    const report = join(this.#folder, REPORT);
    if (!isFile(report) || statSync(report).size > MAX_REPORT_BYTES) return;
    writeFileSync(report, files.clean(withoutOwnPlaces(readFileSync(report, 'utf8'))));
  }

  #ownFile(file: string): LeftFile {
    const name = relative(join(this.#folder, 'src'), file);
    if (/-snapshots\//.test(name)) return this.#file(file, 'snapshot', `snapshots/${name}`);
    return isPicture(file)
      ? this.#file(file, 'screenshot', `screenshots/${name}`)
      : this.#file(file, 'file', `files/${name}`);
  }

  /** Below a folder for each test that left something. */
  #results(): LeftFile[] {
    const root = join(this.#folder, RESULTS);
    return filesBelow(root).flatMap((file) => {
      const name = relative(root, file);
      const [top = ''] = name.split('/');
      // What a worker is writing, and what Playwright notes about its last run.
      if (top.startsWith('.')) return [];
      if (basename(file) === 'trace.zip') return [this.#file(file, 'trace', `traces/${name}`)];
      if (file.endsWith('.webm')) return [this.#file(file, 'video', `videos/${name}`)];
      if (/-(expected|actual|diff)\.(png|jpe?g|txt)$/.test(file))
        return [this.#file(file, 'snapshot', `snapshots/${name}`)];
      return [
        isPicture(file)
          ? this.#file(file, 'screenshot', `screenshots/${name}`)
          : this.#file(file, 'file', `files/${name}`),
      ];
    });
  }

  #file(file: string, kind: LeftFile['kind'], name: string): LeftFile {
    return { path: relative(this.#folder, file), kind, name };
  }
}

/** An error of Playwright itself has its place where we called it, and a piece of our code. */
function withoutOwnPlaces(report: string): string {
  if (!report.includes(OWN_FOLDER)) return report;
  const cleaned: unknown = JSON.parse(report, (_key, value: unknown) => {
    if (!isOwn(value)) return value;
    const { location: _place, snippet: _code, ...rest } = value;
    return rest;
  });
  return JSON.stringify(cleaned, null, 2);
}

function isOwn(value: unknown): value is Record<'location' | 'snippet', unknown> {
  const { location } = Object(value) as { location?: { file?: unknown } | null };
  return typeof location?.file === 'string' && location.file.startsWith(OWN_FOLDER);
}

const isPicture = (file: string): boolean => PICTURES.has(extname(file).toLowerCase());

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

/** Plain files, sorted; neither links nor what is too deep or too much. */
function filesBelow(folder: string, depth = 0): string[] {
  if (depth > MAX_DEPTH) return [];
  let entries;
  try {
    entries = readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
  // The profile of a browser: hundreds of files that say nothing.
  if (isFile(join(folder, 'Default', 'Cookies'))) return [];
  const found: string[] = [];
  for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
    if (found.length >= MAX_FILES) break;
    const path = join(folder, entry.name);
    if (entry.isDirectory()) found.push(...filesBelow(path, depth + 1));
    else if (entry.isFile()) found.push(path);
  }
  return found;
}
