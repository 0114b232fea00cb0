import { z } from 'zod';
import { assertionFields, ipFamily, threshold } from '../assertion-fields.ts';

const TcpRequest = z.strictObject({
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
});

/** Other names of the interface for the same things; sent as null they say nothing. */
const ALIASES = { url: 'hostname', body: 'data' } as const;

/** Puts what came under another name where it belongs. Two names that disagree are refused. */
function withoutAliases(input: unknown, ctx: z.core.$RefinementCtx): unknown {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return input;
  const request: Record<string, unknown> = { ...input };
  for (const [alias, name] of Object.entries(ALIASES)) {
    const value = request[alias];
    delete request[alias];
    if (value === undefined || value === null) continue;
    if ((request[name] ?? value) !== value) {
      ctx.addIssue({ code: 'custom', path: [alias], message: `must be the same as ${name}, or absent` });
    }
    request[name] = value;
  }
  return request;
}

export const TcpFields = z.strictObject({
  request: z.preprocess(withoutAliases, TcpRequest),
  degradedResponseTime: threshold(5000, 3000),
  maxResponseTime: threshold(5000, 5000),
});
