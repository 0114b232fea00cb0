import { appendFileSync } from 'node:fs';
import { relative } from 'node:path';

/*
 * One of Playwright's reporters: tells the agent of every test as it ends. It runs in the project's
 * Playwright, whatever its version, and imports nothing of ours. Written at once, so that nothing is lost
 * whoever ends the process.
 */
interface Location {
  file: string;
  line: number;
  column: number;
}
interface TestError {
  message?: string;
  stack?: string;
  value?: string;
  location?: Location;
  snippet?: string;
}
interface Step {
  title: string;
  category: string;
  startTime: Date;
  duration: number;
  error?: TestError;
  steps: Step[];
}
interface Attachment {
  name: string;
  contentType: string;
  path?: string;
  body?: Buffer;
}
interface Result {
  retry: number;
  status: string;
  startTime: Date;
  duration: number;
  errors: TestError[];
  attachments: Attachment[];
  steps: Step[];
}
interface TestCase {
  id: string;
  title: string;
  titlePath(): string[];
  location: Location;
  expectedStatus: string;
  tags?: string[];
  retries: number;
  parent: { project(): { name: string } | undefined };
}
interface Config {
  rootDir: string;
  version: string;
  workers: number;
  projects: { name: string }[];
}
interface Suite {
  allTests(): TestCase[];
}

const MAX_BODY_BYTES = 4_000;
const MAX_STEPS = 500;
const MAX_TEXT_CHARS = 20_000;

export default class Reporter {
  readonly #events: string;

  constructor({ events }: { events: string }) {
    this.#events = events;
  }

  printsToStdio(): boolean {
    return false;
  }

  onBegin(config: Config, suite: Suite): void {
    const tests = suite.allTests();
    this.#say({ t: 'begin', pid: process.pid, version: config.version, tests: tests.length, at: Date.now() });
  }

  onTestBegin(test: TestCase, result: Result): void {
    this.#say({
      t: 'test-begin',
      test: testOf(test),
      retry: result.retry,
      startTime: timeOf(result.startTime),
    });
  }

  onTestEnd(test: TestCase, result: Result): void {
    const { retry, status, duration, startTime, errors, attachments, steps } = result;
    this.#say({
      t: 'test-end',
      test: testOf(test),
      retry,
      status,
      duration,
      startTime: timeOf(startTime),
      errors: errors.map((error) => errorOf(error)),
      softErrors: softErrorsIn(steps),
      attachments: attachments.map((each) => attachmentOf(each)),
      steps: stepsOf(steps, { left: MAX_STEPS }),
    });
  }

  onError(error: TestError): void {
    this.#say({ t: 'error', error: errorOf(error) });
  }

  onEnd(result: { status: string }): void {
    this.#say({ t: 'end', status: result.status, at: Date.now() });
  }

  #say(event: object): void {
    appendFileSync(this.#events, `${JSON.stringify(event)}\n`);
  }
}

/** The preload knows why a browser did not get somewhere; browsers do not say. */
const inWords: unknown = (globalThis as Record<symbol, unknown>)[Symbol.for('vedette.words')];
const worded = (text: string): string =>
  typeof inWords === 'function' ? String((inWords as (text: string) => unknown)(text)) : text;

const timeOf = (time: Date): number => new Date(time).getTime();
const cut = (text: string): string => worded(text.slice(0, MAX_TEXT_CHARS));

function testOf(test: TestCase): object {
  const { id, location, expectedStatus, retries } = test;
  // Root, project and file come before what the author wrote.
  const titlePath = test.titlePath().slice(3);
  const { file, line, column } = location;
  return {
    id,
    project: test.parent.project()?.name ?? '',
    file: relative(process.cwd(), file),
    line,
    column,
    titlePath,
    tags: test.tags ?? test.title.match(/@[\w-]+/g) ?? [],
    expectedStatus,
    retries,
  };
}

function errorOf({ message, value, stack, location, snippet }: TestError): object {
  const place =
    location === undefined
      ? {}
      : { file: relative(process.cwd(), location.file), line: location.line, column: location.column };
  return {
    message: cut(message ?? value ?? 'an error without a message'),
    ...(stack === undefined ? {} : { stack: cut(stack) }),
    ...(snippet === undefined ? {} : { snippet: cut(snippet) }),
    ...place,
  };
}

function attachmentOf({ name, contentType, path, body }: Attachment): object {
  const isText = /^(text\/|application\/json)/.test(contentType);
  const shown =
    path === undefined && body !== undefined && isText && body.length <= MAX_BODY_BYTES
      ? { body: body.toString() }
      : {};
  return { name, contentType, path: path ?? null, ...shown };
}

/** Failed assertions after which their test went on; the step says so, the error does not. */
const softErrorsIn = (steps: readonly Step[]): number =>
  steps.reduce((sum, { category, title, error, steps: inner }) => {
    const isSoft =
      category === 'expect' && error !== undefined && /^(expect\.soft\b|Expect "soft )/.test(title);
    return sum + (isSoft ? 1 : softErrorsIn(inner));
  }, 0);

/** Playwright's own set-up says nothing about the target. */
const HIDDEN = new Set(['fixture', 'test.attach']);

function stepsOf(steps: readonly Step[], room: { left: number }): object[] {
  return steps.flatMap((step) => {
    if (HIDDEN.has(step.category) || room.left-- <= 0) return [];
    const { title, category, startTime, duration, error } = step;
    return {
      title: title.slice(0, 500),
      category,
      startTime: timeOf(startTime),
      duration,
      ...(error?.message === undefined ? {} : { error: cut(error.message) }),
      steps: stepsOf(step.steps, room),
    };
  });
}
