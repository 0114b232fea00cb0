import { defineCheckType } from '../check-type.ts';
import { UrlFields } from './spec.ts';

export const url = defineCheckType({
  name: 'URL',
  route: 'url',
  lane: 'probe',
  resultField: 'apiCheckResult',
  fields: UrlFields,
  timeoutMs: () => 30_000,
  runner: async () => (await import('./run.ts')).runner,
});
