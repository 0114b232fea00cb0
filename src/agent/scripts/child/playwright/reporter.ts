import { REPORTER_KEY } from './configuration.ts';
import type { TestError } from './errors.ts';
import type { TestRecord } from './steps.ts';

interface TestCase {
  titlePath(): string[];
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
}

/** What is to be known about the tests of a run. */
export interface TestListener {
  tests(count: number): void;
  testBegins(title: string, result: object): void;
  /** @param isExpected it failed as its author said it would, or passed */
  testEnds(result: TestResult, isExpected: boolean): void;
  stepBegins(result: object, step: ReportedStep): void;
  stepEnds(step: ReportedStep): void;
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
  onBegin(_config: unknown, suite: { allTests(): unknown[] }): void {
    listener?.tests(suite.allTests().length);
  }
  onTestBegin(test: TestCase, result: TestResult): void {
    // Root, project, file, then what the author wrote.
    listener?.testBegins(test.titlePath().slice(3).join(' › '), result);
  }
  onTestEnd(test: TestCase, result: TestResult): void {
    listener?.testEnds(result, result.status === test.expectedStatus);
  }
  onStepBegin(_test: TestCase, result: TestResult, step: ReportedStep): void {
    listener?.stepBegins(result, step);
  }
  onStepEnd(_test: TestCase, _result: TestResult, step: ReportedStep): void {
    listener?.stepEnds(step);
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
