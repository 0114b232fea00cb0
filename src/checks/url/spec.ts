import { z } from 'zod';
import { assertionFields, httpAddress, ipFamily, NUMERIC, threshold } from '../assertion-fields.ts';

export const UrlFields = z.strictObject({
  request: z.strictObject({
    method: z.literal('GET', { error: 'must be GET' }).default('GET'),
    url: httpAddress,
    followRedirects: z.boolean().default(true),
    skipSSL: z.boolean().default(false),
    ipFamily,
    assertions: assertionFields(['STATUS_CODE'], NUMERIC),
  }),
  degradedResponseTime: threshold(30_000, 3000),
  maxResponseTime: threshold(30_000, 5000),
});
