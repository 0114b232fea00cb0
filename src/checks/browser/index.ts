import { defineCheckType } from '../check-type.ts';
import { codeProblems, SCRIPT_TIMEOUT_MS } from '../script-fields.ts';
import { BrowserFields } from './spec.ts';

export const browser = defineCheckType({
  name: 'BROWSER',
  route: 'browser',
  lane: 'script',
  resultField: 'browserCheckResult',
  fields: BrowserFields,
  timeoutMs: () => SCRIPT_TIMEOUT_MS,
  jobClass: () => 'browser',
  problems: codeProblems,
});
