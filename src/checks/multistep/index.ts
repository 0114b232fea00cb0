import { defineCheckType } from '../check-type.ts';
import { codeProblems, SCRIPT_TIMEOUT_MS } from '../script-fields.ts';
import { MultistepFields } from './spec.ts';

export const multistep = defineCheckType({
  name: 'MULTI_STEP',
  route: 'multistep',
  lane: 'script',
  resultField: 'multiStepCheckResult',
  fields: MultistepFields,
  timeoutMs: () => SCRIPT_TIMEOUT_MS,
  jobClass: () => 'script',
  problems: codeProblems,
});
