import { REPORTER_KEY } from './configuration.ts';
import type { TestError } from './errors.ts';
import type { TestRecord } from './steps.ts';

export interface Location {
  file: string;
  line: number;
  column: number;
}
export interface TestCase {
  id: string;
  titlePath(): string[];
  location: Location;
  expectedStatus: TestResult['status'];
}
export interface Attachment {
  name: string;
  contentType: string;
  path?: string;
  body?: Buffer;
}
export interface TestResult {
  status: Exclude<TestRecord['status'], 'running'>;
  duration: number;
  errors: TestError[];
  attachments: Attachment[];
}
export interface ReportedStep {
  title: string;
  category: string;
  startTime: Date;
  duration: number;
  error?: { message?: string };
  parent?: ReportedStep;
  location?: Location;
}

/** What is to be known about the tests of a run. */
export interface TestListener {
  testBegins(title: string, test: TestCase, result: object): void;
  /** A test that is tried again begins and ends again. */
  testEnds(title: string, test: TestCase, result: TestResult): void;
  stepBegins(result: object, step: ReportedStep): void;
  stepEnds(result: object, step: ReportedStep): void;
  print(level: 'info' | 'error', text: string): void;
  /** Of no test: a file that cannot be loaded, a worker that ended. */
  error(error: TestError): void;
}

let listener: TestListener | undefined;

/** Playwright makes the reporter by itself, from a file; who listens is told beforehand. */
export function reportTo(to: TestListener): void {
  listener = to;
  Object.defineProperty(globalThis, Symbol.for(REPORTER_KEY), { value: Reporter });
}

/** One of Playwright's reporters. */
class Reporter {
  printsToStdio(): boolean {
    return true;
  }
  onTestBegin(test: TestCase, result: TestResult): void {
    listener?.testBegins(titleOf(test), test, result);
  }
  onTestEnd(test: TestCase, result: TestResult): void {
    listener?.testEnds(titleOf(test), test, result);
  }
  onStepBegin(_test: TestCase, result: TestResult, step: ReportedStep): void {
    listener?.stepBegins(result, step);
  }
  onStepEnd(_test: TestCase, result: TestResult, step: ReportedStep): void {
    listener?.stepEnds(result, step);
  }
  onStdOut(chunk: string | Buffer): void {
    listener?.print('info', String(chunk));
  }
  onStdErr(chunk: string | Buffer): void {
    listener?.print('error', String(chunk));
  }
  onError(error: TestError): void {
    listener?.error(error);
  }
}

/** Root, project, file, then what the author wrote. */
const titleOf = (test: TestCase): string => test.titlePath().slice(3).join(' › ');
