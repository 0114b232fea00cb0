import { defineCheckType } from '../check-type.ts';
import { ApiFields } from './spec.ts';

export const api = defineCheckType({
  name: 'API',
  route: 'api',
  lane: 'probe',
  resultField: 'apiCheckResult',
  fields: ApiFields,
  timeoutMs: () => 30_000,
  runner: async () => (await import('./run.ts')).runner,
});
