import { metricsOf, type SuiteError, type SuiteMetrics, type SuiteTest } from '../../checks/index.ts';
import type { Artifact } from '../../contract/index.ts';
import { relative } from 'node:path';
import { shownText } from './words.ts';
import type { BegunTry, Event, FinishedTry, FoundError } from './events.ts';

/** A file that a test left, and how the result calls it. */
export interface TestFile {
  /** From the job's folder. */
  path: string;
  kind: Artifact['kind'];
  name: string;
  /** Of the test that it belongs to. */
  isOfFailure: boolean;
}

interface Known {
  first: BegunTry;
  /** Tries that have ended, in order. */
  tries: FinishedTry[];
  /** A try that has not. */
  current: BegunTry | undefined;
}

const MAX_SLUG_CHARS = 60;
/** Attachments of Playwright's own with a place of their own. */
const OWN_KINDS: Readonly<Record<string, Artifact['kind']>> = {
  trace: 'trace',
  video: 'video',
  screenshot: 'screenshot',
};

/** What is known of the tests of a suite, from its first event to its last. */
export class Tests {
  readonly #folder: string;
  readonly #words: (text: string) => string;
  readonly #known = new Map<string, Known>();
  readonly #ofNone: FoundError[] = [];
  #begun: Extract<Event, { t: 'begin' }> | undefined;
  #ended: Extract<Event, { t: 'end' }> | undefined;

  /**
   * @param folder the job's
   * @param words makes a text of the machine one for a reader
   */
  constructor(folder: string, words: (text: string) => string) {
    this.#folder = folder;
    this.#words = words;
  }

  take(event: Event): void {
    switch (event.t) {
      case 'begin':
        this.#begun = event;
        break;
      case 'test-begin':
        this.#of(event).current = event;
        break;
      case 'test-end': {
        const known = this.#of(event);
        known.current = undefined;
        known.tries.push(event);
        break;
      }
      case 'error':
        this.#ofNone.push(event.error);
        break;
      case 'end':
        this.#ended = event;
        break;
    }
  }

  /** Of the process that leads the tests; undefined before they begin. */
  get pid(): number | undefined {
    return this.#begun?.pid;
  }
  get playwrightVersion(): string | null {
    return this.#begun?.version ?? null;
  }
  get hasBegun(): boolean {
    return this.#begun !== undefined;
  }
  /** How Playwright itself ended: `passed`, `failed`, `timedout`, `interrupted`. */
  get status(): string | undefined {
    return this.#ended?.status;
  }
  get planned(): number {
    return this.#begun?.tests ?? 0;
  }
  /** Errors of no test: a file that cannot be loaded, a global time-out. */
  get loose(): SuiteError[] {
    return this.#ofNone.map((error) => this.#shown(error));
  }

  /** No test failed but by soft assertions. */
  get onlySoft(): boolean {
    return [...this.#known.values()].every(({ tries, current }) => {
      const last = tries.at(-1);
      if (current !== undefined || last === undefined) return false;
      if (!isUnexpected(last) || last.status === 'skipped') return true;
      return last.status === 'failed' && last.errors.length > 0 && last.softErrors >= last.errors.length;
    });
  }

  /** Every test that was begun, with the files of those that ended. */
  list(): { tests: SuiteTest[]; files: TestFile[]; metrics: SuiteMetrics } {
    const files: TestFile[] = [];
    const tests = [...this.#known.values()].map((known) => this.#testOf(known, files));
    const notRun = Math.max(0, this.planned - tests.length);
    return { tests, files, metrics: metricsOf(tests, notRun) };
  }

  #of(event: BegunTry): Known {
    const { test } = event;
    const key = `${test.project}\0${test.id}`;
    const known = this.#known.get(key) ?? { first: event, tries: [], current: undefined };
    this.#known.set(key, known);
    return known;
  }

  #testOf({ first, tries, current }: Known, files: TestFile[]): SuiteTest {
    const { id, project, file, line, column, titlePath, tags } = first.test;
    const status = statusOf(tries, current);
    const last = tries.at(-1);
    const shownTries = status === 'flaky' ? tries.filter(isUnexpected) : tries.slice(-1);
    const isOfFailure = status !== 'passed' && status !== 'skipped';
    const attachments = tries.flatMap((each) => this.#attachmentsOf(each, isOfFailure, files));
    return {
      id,
      project,
      file,
      line,
      column,
      titlePath,
      tags,
      status,
      duration: tries.reduce((sum, { duration }) => sum + duration, 0),
      startTime: tries[0]?.startTime ?? current?.startTime ?? 0,
      retries: Math.max(0, tries.length - 1 + (current === undefined ? 0 : 1)),
      errors: shownTries.flatMap(({ errors }) => errors.map((error) => this.#shown(error))),
      steps: last?.steps ?? [],
      attachments,
    };
  }

  #attachmentsOf(
    { test, retry, attachments }: FinishedTry,
    isOfFailure: boolean,
    files: TestFile[],
  ): SuiteTest['attachments'] {
    return attachments.map(({ name, contentType, path, body }) => {
      if (path === null)
        return { name, contentType, artifact: null, ...(body === undefined ? {} : { body }) };
      const kind = OWN_KINDS[name] ?? 'file';
      const called = this.#nameOf({ kind, name, path }, test, retry, files);
      files.push({ path: relative(this.#folder, path), kind, name: called, isOfFailure });
      return { name, contentType, artifact: called };
    });
  }

  /** `traces/checkout-pays-chromium-retry1.zip`, with a number where that is taken. */
  #nameOf(
    { kind, name, path }: { kind: Artifact['kind']; name: string; path: string },
    { titlePath, project }: BegunTry['test'],
    retry: number,
    files: readonly TestFile[],
  ): string {
    const ending = /\.[A-Za-z0-9]{1,8}$/.exec(path)?.[0] ?? '';
    const parts = [slug(titlePath.join('-')), slug(project), ...(kind === 'file' ? [slug(name)] : [])];
    const base = `${FOLDERS[kind]}/${parts.filter((part) => part !== '').join('-')}${retry > 0 ? `-retry${retry}` : ''}`;
    for (let i = 1; ; i++) {
      const called = `${base}${i > 1 ? `-${i}` : ''}${ending}`;
      if (!files.some((each) => each.name === called)) return called;
    }
  }

  #shown({ message, stack, snippet, file, line, column }: FoundError): SuiteError {
    return {
      message: this.#words(message),
      ...(stack === undefined ? {} : { stack: this.#words(stack) }),
      ...(snippet === undefined ? {} : { snippet: shownText(snippet) }),
      ...(file === undefined ? {} : { file }),
      ...(line === undefined ? {} : { line }),
      ...(column === undefined ? {} : { column }),
    };
  }
}

const FOLDERS: Readonly<Record<Artifact['kind'], string>> = {
  trace: 'traces',
  video: 'videos',
  screenshot: 'screenshots',
  snapshot: 'snapshots',
  log: 'attachments',
  report: 'attachments',
  file: 'attachments',
};

const slug = (text: string): string =>
  text
    .normalize('NFKD')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .toLowerCase()
    .slice(0, MAX_SLUG_CHARS);

const isUnexpected = ({ status, test }: FinishedTry): boolean => status !== test.expectedStatus;

/** As Playwright counts: a test that came out as expected in the end is flaky when it did not at first. */
function statusOf(tries: readonly FinishedTry[], current: BegunTry | undefined): SuiteTest['status'] {
  const last = tries.at(-1);
  if (current !== undefined || last === undefined || last.status === 'interrupted') return 'interrupted';
  if (last.status === 'skipped') return 'skipped';
  if (isUnexpected(last)) return 'failed';
  return tries.some((each) => isUnexpected(each) && each.status !== 'interrupted') ? 'flaky' : 'passed';
}
