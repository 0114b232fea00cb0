import { apiCodeProblems, countScripts } from '../api-scripts.ts';
import { defineCheckType } from '../check-type.ts';
import { SCRIPT_LIMIT_MS } from '../script-hooks.ts';
import { ApiFields, REQUEST_LIMIT_MS } from './spec.ts';

/** Their process is there already; its answers take a moment on a busy machine. */
const SCRIPTS_SLACK_MS = 5_000;

const scriptTimeMs = (count: number): number =>
  count === 0 ? 0 : count * SCRIPT_LIMIT_MS + SCRIPTS_SLACK_MS;

export const api = defineCheckType({
  name: 'API',
  route: 'api',
  lane: 'probe',
  resultField: 'apiCheckResult',
  fields: ApiFields,
  timeoutMs: (spec) => REQUEST_LIMIT_MS + scriptTimeMs(countScripts(spec)),
  jobClass: (spec) => (countScripts(spec) > 0 ? 'script' : 'light'),
  problems: apiCodeProblems,
  runner: async () => (await import('./run.ts')).runner,
});
