import { z } from 'zod';
import { assertionFields, threshold } from '../assertion-fields.ts';

export const IcmpFields = z.strictObject({
  request: z.strictObject({
    hostname: z.string().min(1, 'must not be empty').max(2048),
    ipFamily: z.enum(['IPv4', 'IPv6']).nullable().default('IPv4'),
    pingCount: z.int().min(1).max(50).nullable().default(10),
    assertions: assertionFields(
      ['LATENCY', 'JSON_RESPONSE'],
      [
        'EQUALS',
        'NOT_EQUALS',
        'IS_EMPTY',
        'NOT_EMPTY',
        'GREATER_THAN',
        'LESS_THAN',
        'CONTAINS',
        'NOT_CONTAINS',
        'IS_NULL',
        'NOT_NULL',
      ],
    ),
  }),
  degradedResponseTime: threshold(300_000, 10_000),
  maxResponseTime: threshold(300_000, 20_000),
  degradedPacketLossThreshold: threshold(100, 10),
  maxPacketLossThreshold: threshold(100, 20),
});
