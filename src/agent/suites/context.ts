import type { SuiteJob, SuiteResult } from '../../checks/index.ts';
import type { Job } from '../../contract/index.ts';
import type { JobLimits } from '../sandbox/index.ts';
import type { Engine } from './engines.ts';
import type { Patience } from './patience.ts';
import type { Ended } from './protocol.ts';
import type { RunLog } from './run-log.ts';
import type { SuiteServices } from './services.ts';
import type { Site } from './site.ts';
import type { Stage } from './verdict.ts';

/** A suite as its job brings it. */
export type Suite = SuiteJob & { environmentVariables?: { key: string; value: string }[] | null };

/** What a run has come to know of itself: one that is cut keeps it. */
export interface Course {
  stage: Stage;
  engine: Engine | undefined;
  packageManager: SuiteResult['packageManager'];
  playwrightVersion: string | null;
  install: SuiteResult['install'];
  /** How the test command ended; undefined while it has not. */
  ended: Ended | undefined;
  testCommandMs: number;
}

/** What the stages of a run work with. */
export interface RunContext {
  readonly job: Job;
  readonly suite: Suite;
  readonly limits: JobLimits;
  readonly services: SuiteServices;
  readonly site: Site;
  readonly log: RunLog;
  readonly patience: Patience;
  readonly course: Course;
}
