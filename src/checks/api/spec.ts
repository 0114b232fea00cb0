import { z } from 'zod';
import { assertionFields, GENERAL, httpAddress, ipFamily, threshold } from '../assertion-fields.ts';
import { KeyValue } from '../check.ts';

const NOT_YET = { error: 'must be null: setup and teardown scripts are not supported yet' };
/** Parts of the interface, null or empty in most checks: this build runs API checks without scripts. */
const NoScript = z.literal([null, ''], NOT_YET).default(null);
const NoSnippet = z.null(NOT_YET).default(null);

export const ApiFields = z.strictObject({
  request: z.strictObject({
    method: z.enum(['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS']).default('GET'),
    url: httpAddress,
    followRedirects: z.boolean().default(true),
    skipSSL: z.boolean().default(false),
    ipFamily,
    body: z.string().default(''),
    bodyType: z.enum(['JSON', 'FORM', 'RAW', 'GRAPHQL', 'NONE']).default('NONE'),
    headers: z.array(KeyValue).default([]),
    queryParameters: z.array(KeyValue).default([]),
    assertions: assertionFields(
      ['STATUS_CODE', 'JSON_BODY', 'HEADERS', 'TEXT_BODY', 'RESPONSE_TIME'],
      GENERAL,
    ),
    basicAuth: z
      .strictObject({ username: z.string().default(''), password: z.string().default('') })
      .nullable()
      .default(null),
  }),
  degradedResponseTime: threshold(30_000, 5000),
  maxResponseTime: threshold(30_000, 20_000),
  setupSnippetId: NoSnippet,
  tearDownSnippetId: NoSnippet,
  localSetupScript: NoScript,
  localTearDownScript: NoScript,
});
