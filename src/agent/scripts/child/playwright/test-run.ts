import type { RunScript, ScriptError } from '../../protocol.ts';
import type { UserCode } from '../user-code/index.ts';
import { writeConfiguration } from './configuration.ts';
import { explainTestError, type TestError } from './errors.ts';
import { keepFirstWorkerHere } from './in-process-worker.ts';
import type { Library, ProcessHost } from './library.ts';
import { reportTo, type TestListener } from './reporter.ts';
import { Steps, type TestRecord } from './steps.ts';

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
  readonly errors: ScriptError[] = [];
  readonly #options: TestRunOptions;
  readonly #records = new WeakMap<object, TestRecord>();
  readonly #softMessages = new Set<string>();
  /** Undefined until the file is loaded. */
  #count: number | undefined;

  constructor(options: TestRunOptions) {
    this.#options = options;
  }

  /** Whether the entry, when it was loaded, turned out to have no test in it. */
  get isEmpty(): boolean {
    return this.#count === 0 && this.errors.length === 0;
  }

  async run(message: RunScript, folder: string): Promise<Ended> {
    const { library, fork } = this.#options;
    library.onSoftError((text) => this.noteSoft(text));
    keepFirstWorkerHere(library, fork);
    reportTo(this.#listener());
    const status = await library.runTests(writeConfiguration(folder, message), folder);
    const verdict = status === 'timedout' ? 'timed_out' : status === 'passed' ? 'passed' : 'failed';
    return { verdict, errors: this.errors };
  }

  /** A test goes on after it. */
  noteSoft(message: string): void {
    this.#softMessages.add(message);
  }

  #listener(): TestListener {
    const { code, onChange } = this.#options;
    return {
      tests: (count) => (this.#count = count),
      testBegins: (title, result) => this.#records.set(result, this.steps.beginTest(title)),
      testEnds: (result, isExpected) => {
        const record = this.#records.get(result);
        if (record !== undefined) Object.assign(record, { status: result.status, duration: result.duration });
        if (!isExpected) for (const error of result.errors) this.#add(error);
        onChange();
      },
      stepBegins: (result, step) => {
        this.steps.begin(this.#records.get(result), step);
        onChange();
      },
      stepEnds: (step) => this.steps.end(step, (message) => this.#explained({ message }).message),
      print: (level, text) => {
        if (text !== '') code.printer.say(level, text.replace(/\n$/, ''));
      },
      error: (error) => this.#add(error),
    };
  }

  #add(error: TestError): void {
    // Said of a file without tests, which is a plain script then.
    if (this.#count === 0 && /^No tests found/m.test(error.message ?? '')) return;
    const isSoft = [...this.#softMessages].some((text) => error.message?.includes(text));
    this.errors.push({ ...this.#explained(error), ...(isSoft ? { soft: true } : {}) });
  }

  #explained(error: TestError): ScriptError {
    const { code, runtimeId } = this.#options;
    return explainTestError(error, code.files, runtimeId);
  }
}
