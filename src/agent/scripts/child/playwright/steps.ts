/** A step of a test as the result shows it. Times are epoch ms and ms. */
export interface Step {
  title: string;
  /** `test.step`, `pw:api`, `expect`, `hook`, … */
  category: string;
  startTime: number;
  /** Null while it goes on. */
  duration: number | null;
  error?: string;
  steps: Step[];
}

export interface TestRecord {
  title: string;
  status: 'running' | 'passed' | 'failed' | 'timedOut' | 'skipped' | 'interrupted';
  startTime: number;
  duration: number | null;
  steps: Step[];
}

interface ReportedStep {
  title: string;
  category: string;
  startTime: Date;
  duration: number;
  error?: { message?: string };
  parent?: ReportedStep;
}

/** Of one run: a loop over pages makes thousands. */
const MAX_STEPS = 1_000;
const MAX_TITLE_CHARS = 2_000;
/** Playwright's own set-up and tidying says nothing about the target. */
const HIDDEN = new Set(['fixture', 'test.attach']);

/** The steps of a run as they come, so that those of a run that is cut short are there. */
export class Steps {
  readonly tests: TestRecord[] = [];
  readonly #shown = new WeakMap<object, Step>();
  #count = 0;

  beginTest(title: string): TestRecord {
    const test: TestRecord = { title, status: 'running', startTime: Date.now(), duration: null, steps: [] };
    this.tests.push(test);
    return test;
  }

  /** Steps that are not shown, since there are too many. */
  get leftOut(): number {
    return Math.max(0, this.#count - MAX_STEPS);
  }

  begin(test: TestRecord | undefined, reported: ReportedStep): void {
    if (test === undefined || HIDDEN.has(reported.category)) return;
    if (this.#count++ >= MAX_STEPS) return;
    const { title, category, startTime } = reported;
    const step: Step = {
      title: title.slice(0, MAX_TITLE_CHARS),
      category,
      startTime: startTime.getTime(),
      duration: null,
      steps: [],
    };
    this.#shown.set(reported, step);
    this.#siblingsOf(test, reported).push(step);
  }

  end(reported: ReportedStep, words: (message: string) => string): void {
    const step = this.#shown.get(reported);
    if (step === undefined) return;
    step.duration = reported.duration;
    if (reported.error?.message !== undefined) step.error = words(reported.error.message);
  }

  #siblingsOf(test: TestRecord, reported: ReportedStep): Step[] {
    for (let { parent } = reported; parent !== undefined; { parent } = parent) {
      const shown = this.#shown.get(parent);
      if (shown !== undefined) return shown.steps;
    }
    return test.steps;
  }
}
