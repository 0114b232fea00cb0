import { z } from 'zod';
import { assertionFields, GENERAL, httpAddress, ipFamily, threshold } from '../assertion-fields.ts';
import { KeyValue } from '../check.ts';
import { scriptFilePath } from '../script-fields.ts';

/** Of one script; what they all have together is looked at besides. */
const MAX_SCRIPT_CHARS = 256_000;
const MAX_FILES = 200;

const script = z.string().max(MAX_SCRIPT_CHARS).nullable().default(null);
/** The service puts the snippet's code beside it. */
const snippetId = z.int().positive().nullable().default(null);
const scriptPath = scriptFilePath.nullable().default(null);
const scriptDependencies = z
  .array(z.strictObject({ path: scriptFilePath, content: z.string() }))
  .max(MAX_FILES)
  .nullable()
  .default(null);

export const METHODS = ['GET', 'POST', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'OPTIONS'] as const;

export const ApiFields = z.strictObject({
  request: z.strictObject({
    method: z.enum(METHODS).default('GET'),
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
  setupSnippetId: snippetId,
  tearDownSnippetId: snippetId,
  localSetupScript: script,
  localTearDownScript: script,
  setupScriptPath: scriptPath,
  tearDownScriptPath: scriptPath,
  setupScriptDependencies: scriptDependencies,
  tearDownScriptDependencies: scriptDependencies,
});

/** Without the scripts around it. */
export const REQUEST_LIMIT_MS = 30_000;
