import { defineCheckType } from '../check-type.ts';
import { suiteProblems, suiteTimeoutMs } from '../suite-fields.ts';
import { PlaywrightFields } from './spec.ts';

export const playwright = defineCheckType({
  name: 'PLAYWRIGHT',
  route: 'playwright',
  lane: 'suite',
  resultField: 'playwrightCheckResult',
  fields: PlaywrightFields,
  timeoutMs: suiteTimeoutMs,
  jobClass: () => 'suite',
  problems: suiteProblems,
});
