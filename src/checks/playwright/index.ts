import { defineCheckType } from '../check-type.ts';
import { PlaywrightFields, suiteProblems, suiteTimeoutMs } from './spec.ts';

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
