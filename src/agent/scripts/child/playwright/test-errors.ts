import { stripVTControlCharacters } from 'node:util';
import type { ScriptError } from '../../protocol.ts';
import type { TestError } from './errors.ts';
import type { Location, ReportedStep, TestCase, TestResult } from './reporter.ts';

/** They are Playwright's own and hold whatever a test does. */
const AROUND = new Set(['hook', 'fixture']);
/** Said of the end of a run by whoever ended it; the verdict says so already. */
const OF_THE_END = /^(Test was interrupted\.|Timed out waiting [\d.]+s for the .* to run)$/;

/** What went wrong in the tests of a run: the last try of each test counts. */
export class TestErrors {
  readonly #explain: (error: TestError, near: Location | undefined) => ScriptError;
  /** Of no test: a file that cannot be loaded. */
  readonly #ofNone: ScriptError[] = [];
  readonly #ofTests = new Map<string, ScriptError[]>();
  readonly #softMessages = new Set<string>();
  /** Steps that have not ended, or have failed, by the result that they belong to. */
  readonly #troubled = new Map<object, Set<ReportedStep>>();
  /** The test that is under way. */
  #current: { title: string; test: TestCase; result: object } | undefined;

  constructor(explain: (error: TestError, near: Location | undefined) => ScriptError) {
    this.#explain = explain;
  }

  get all(): ScriptError[] {
    return [...this.#ofNone, ...[...this.#ofTests.values()].flat()];
  }

  get isDuringTest(): boolean {
    return this.#current !== undefined;
  }

  /** A test goes on after it. */
  noteSoft(message: string): void {
    this.#softMessages.add(message);
  }

  testBegins(title: string, test: TestCase, result: object): void {
    this.#current = { title, test, result };
  }

  testEnds(title: string, test: TestCase, result: TestResult): void {
    const near = this.#stepOf(result)?.location ?? test.location;
    const isExpected = result.status === test.expectedStatus;
    const errors = isExpected ? [] : result.errors.filter(isOfInterest);
    if (!isExpected && result.status === 'passed') {
      errors.push({ message: `"${title}" was expected to fail, but it passed`, location: test.location });
    }
    this.#ofTests.set(
      test.id,
      errors.map((error) => this.#explained(error, near)),
    );
    this.#troubled.delete(result);
    this.#current = undefined;
  }

  stepBegins(result: object, step: ReportedStep): void {
    if (AROUND.has(step.category)) return;
    if (!this.#troubled.has(result)) this.#troubled.set(result, new Set());
    this.#troubled.get(result)!.add(step);
  }

  stepEnds(result: object, step: ReportedStep): void {
    if (step.error === undefined) this.#troubled.get(result)?.delete(step);
  }

  add(error: TestError): void {
    if (isOfInterest(error)) this.#ofNone.push(this.#explained(error, undefined));
  }

  /** Notes what was under way when the time of the run was up. */
  timeIsUp(): void {
    if (this.#current === undefined) return;
    const { title, test, result } = this.#current;
    const step = this.#stepOf(result);
    const message = `the time was up during "${step?.title ?? title}"`;
    this.add({ message, location: step?.location ?? test.location });
  }

  #stepOf(result: object): ReportedStep | undefined {
    return [...(this.#troubled.get(result) ?? [])].findLast(({ location }) => location !== undefined);
  }

  #explained(error: TestError, near: Location | undefined): ScriptError {
    const isSoft = [...this.#softMessages].some((text) => error.message?.includes(text));
    return { ...this.#explain(error, near), ...(isSoft ? { soft: true } : {}) };
  }
}

const isOfInterest = ({ message = '' }: TestError): boolean =>
  !OF_THE_END.test(stripVTControlCharacters(message).replace(/^Error: /, ''));
