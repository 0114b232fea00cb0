import { z } from 'zod';
import { assertionFields, GENERAL, threshold } from '../assertion-fields.ts';

const DnsRequest = z
  .strictObject({
    query: z.string().min(1, 'must not be empty').max(100),
    nameServer: z.string().min(1, 'must not be empty').max(100).optional(),
    port: z.int().min(1).max(65_535).optional(),
    recordType: z.enum(['A', 'AAAA', 'CNAME', 'MX', 'TXT', 'SOA', 'NS', 'HTTPS']),
    protocol: z.enum(['UDP', 'TCP']).default('UDP'),
    assertions: assertionFields(['RESPONSE_TIME', 'RESPONSE_CODE', 'TEXT_ANSWER', 'JSON_ANSWER'], GENERAL),
  })
  .refine((request) => request.port === undefined || request.nameServer !== undefined, {
    path: ['port'],
    message: 'is allowed only together with nameServer',
  });

export const DnsFields = z.strictObject({
  request: DnsRequest,
  degradedResponseTime: threshold(5000, 500),
  maxResponseTime: threshold(5000, 1000),
});
