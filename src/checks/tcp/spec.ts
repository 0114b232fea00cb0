import { z } from 'zod';
import { assertionFields, ipFamily, threshold } from '../assertion-fields.ts';

export const TcpFields = z.strictObject({
  request: z.strictObject({
    hostname: z.string().min(1, 'must not be empty').max(2048),
    port: z.int().min(1).max(65_535),
    data: z.string().nullable().default(null),
    ipFamily,
    assertions: assertionFields(
      ['RESPONSE_DATA', 'RESPONSE_TIME'],
      [
        'EQUALS',
        'NOT_EQUALS',
        'IS_EMPTY',
        'NOT_EMPTY',
        'LESS_THAN',
        'GREATER_THAN',
        'CONTAINS',
        'NOT_CONTAINS',
      ],
    ),
  }),
  degradedResponseTime: threshold(5000, 3000),
  maxResponseTime: threshold(5000, 5000),
});
