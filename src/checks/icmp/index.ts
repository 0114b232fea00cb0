import { defineCheckType } from '../check-type.ts';
import { IcmpFields } from './spec.ts';

export const icmp = defineCheckType({
  name: 'ICMP',
  route: 'icmp',
  lane: 'probe',
  needs: 'ping',
  resultField: 'icmpCheckResult',
  fields: IcmpFields,
  // 50 pings, 500 ms apart, plus the wait for the last reply.
  timeoutMs: () => 45_000,
  runner: async () => (await import('./run.ts')).runner,
});
