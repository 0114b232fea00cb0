import { defineCheckType } from '../check-type.ts';
import { TcpFields } from './spec.ts';

export const tcp = defineCheckType({
  name: 'TCP',
  route: 'tcp',
  lane: 'probe',
  resultField: 'tcpCheckResult',
  fields: TcpFields,
  timeoutMs: () => 30_000,
  runner: async () => (await import('./run.ts')).runner,
});
