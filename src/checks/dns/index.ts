import { defineCheckType } from '../check-type.ts';
import { DnsFields } from './spec.ts';

export const dns = defineCheckType({
  name: 'DNS',
  route: 'dns',
  lane: 'probe',
  resultField: 'dnsCheckResult',
  fields: DnsFields,
  timeoutMs: () => 30_000,
  runner: async () => (await import('./run.ts')).runner,
});
