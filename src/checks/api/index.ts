import { z } from 'zod';
import { assertionFields, GENERAL, httpAddress, ipFamily, threshold } from '../assertion-fields.ts';
import { KeyValue } from '../check.ts';
import { defineCheckType } from '../check-type.ts';

/** Part of the interface, and null in most checks: this build runs API checks without scripts. */
const NoScript = z
  .null({ error: 'must be null: setup and teardown scripts are not supported yet' })
  .default(null);

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
  setupSnippetId: NoScript,
  tearDownSnippetId: NoScript,
  localSetupScript: NoScript,
  localTearDownScript: NoScript,
});

export const api = defineCheckType({
  name: 'API',
  route: 'api',
  lane: 'probe',
  resultField: 'apiCheckResult',
  fields: ApiFields,
  timeoutMs: () => 30_000,
  runner: async () => (await import('./run.ts')).runner,
});
