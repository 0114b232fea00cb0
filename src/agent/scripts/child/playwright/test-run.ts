import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunScript, ScriptError } from '../../protocol.ts';
import type { UserCode } from '../user-code/index.ts';
import { writeConfiguration } from './configuration.ts';
import { explainTestError, type TestError } from './errors.ts';
import { keepFirstWorkerHere } from './in-process-worker.ts';
import type { Library, ProcessHost } from './library.ts';
import { reportTo, type Location, type TestListener } from './reporter.ts';
import { takesTest } from './specs.ts';
import { Steps, type TestRecord } from './steps.ts';
import { TestErrors } from './test-errors.ts';

export interface Ended {
  verdict: 'passed' | 'failed' | 'timed_out';
  errors: ScriptError[];
}

export interface TestRunOptions {
  library: Library;
  code: UserCode;
  runtimeId: string;
  onChange: () => void;
  /** Starts a worker that Playwright wants in a process of its own. */
  fork: <T>(host: ProcessHost, start: () => T) => T;
}

/** The specs of one check under Playwright Test. */
export class TestRun {
  readonly steps = new Steps();
  readonly #options: TestRunOptions;
  readonly #errors = new TestErrors((error, near) => this.#explained(error, near));
  readonly #records = new WeakMap<object, TestRecord>();
  #hasNoTests = false;
  #isLate = false;

  constructor(options: TestRunOptions) {
    this.#options = options;
  }

  get errors(): ScriptError[] {
    return this.#errors.all;
  }

  /** Whether the entry, when it was loaded, turned out to be no spec. */
  get isEmpty(): boolean {
    return this.#hasNoTests && this.errors.length === 0;
  }

  async run(message: RunScript, folder: string): Promise<Ended> {
    const { library, code, fork } = this.#options;
    library.onSoftError((text) => this.noteSoft(text));
    library.understandTypes((file) => code.files.has(file));
    keepFirstWorkerHere(library, fork);
    reportTo(this.#listener());
    // Playwright's worker reports what happens during a test.
    code.onUncaught = (thrown) => {
      if (!this.#errors.isDuringTest)
        code.printer.say('error', code.errors.explain(thrown, 'script').message);
    };
    const interrupt = library.interrupter();
    const timer = setTimeout(() => this.#timeIsUp(interrupt), message.timeoutMs);
    const status = await library.runTests(writeConfiguration(folder, message), folder);
    clearTimeout(timer);
    if (this.isEmpty) this.#missTests(message.entry);
    const verdict = this.#isLate || status === 'timedout' ? 'timed_out' : status;
    return { verdict: verdict === 'interrupted' ? 'failed' : verdict, errors: this.errors };
  }

  /** A test goes on after it. */
  noteSoft(message: string): void {
    this.#errors.noteSoft(message);
  }

  /** The test that is under way ends with its trace and its last picture. */
  #timeIsUp(interrupt: () => void): void {
    this.#isLate = true;
    this.#errors.timeIsUp();
    interrupt();
  }

  #missTests(entry: string): void {
    const { root } = this.#options.code.files;
    if (!takesTest(readFileSync(join(root, entry), 'utf8'))) return;
    const message = `there is no test in /${entry}: it takes "test" and never calls it`;
    this.#errors.add({ message, location: { file: join(root, entry), line: 1, column: 1 } });
  }

  #listener(): TestListener {
    const { code, onChange } = this.#options;
    return {
      testBegins: (title, test, result) => {
        this.#records.set(result, this.steps.beginTest(title));
        this.#errors.testBegins(title, test, result);
      },
      testEnds: (title, test, result) => {
        const record = this.#records.get(result);
        if (record !== undefined) Object.assign(record, { status: result.status, duration: result.duration });
        this.#errors.testEnds(title, test, result);
        onChange();
      },
      stepBegins: (result, step) => {
        this.steps.begin(this.#records.get(result), step);
        this.#errors.stepBegins(result, step);
        onChange();
      },
      stepEnds: (result, step) => {
        this.steps.end(step, (message) => this.#explained({ message }, undefined).message);
        this.#errors.stepEnds(result, step);
      },
      print: (level, text) => {
        if (text !== '') code.printer.say(level, text.replace(/\n$/, ''));
      },
      error: (error) => this.#add(error),
    };
  }

  /** Of no test. */
  #add(error: TestError): void {
    // Said of a file that cannot be loaded, too.
    if (/^(Error: )?No tests found/.test(error.message ?? '')) this.#hasNoTests = true;
    else this.#errors.add(error);
  }

  #explained(error: TestError, near: Location | undefined): ScriptError {
    const { code, runtimeId } = this.#options;
    return explainTestError(error, code.files, runtimeId, near);
  }
}
