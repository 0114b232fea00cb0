import { STATUS_CODES } from 'node:http';
import { z } from 'zod';
import { VERSION } from '../../kit/version.ts';
import type { Route } from './route.ts';

type Json = Record<string, unknown>;

/** Any route: a query that it does not know, a path that cannot be decoded. */
const ANY_ERRORS = [400] as const;
/** Statuses that every route with a key may answer. */
const KEY_ERRORS = [401, 403, 429] as const;

/** The OpenAPI 3.1 document of the routes, made from the schemas that check their requests. */
export function openApiDocument(routes: readonly Route[], publicUrl: string): Json {
  const schemas = new Schemas();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const at = (paths[route.about.path] ??= {});
    at[route.about.method.toLowerCase()] = operation(route, schemas);
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Vedette',
      version: VERSION,
      description: 'Checks, check sessions, check results and private locations of the monitoring service.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: publicUrl }],
    tags: [...new Set(routes.map((route) => route.about.tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: { Error: ERROR_SCHEMA, ...schemas.named },
      securitySchemes: {
        apiKey: { type: 'http', scheme: 'bearer', description: 'API key of an account' },
      },
    },
    security: [{ apiKey: [] }],
  };
}

/** The whole, or the part that was asked for. */
const FILE_STATUSES = [200, 206] as const;
const UPLOAD_CONTENT = { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };
const FILE_CONTENT = { '*/*': { schema: { type: 'string', format: 'binary' } } };

const ERROR_SCHEMA = {
  type: 'object',
  required: ['statusCode', 'error', 'message'],
  properties: {
    statusCode: { type: 'integer' },
    error: { type: 'string', description: 'The words of the status' },
    message: { type: 'string', description: 'What is wrong and what is allowed' },
    errorCode: { type: 'string', description: 'A word for programs, where they have to tell causes apart' },
  },
};

const ACCOUNT_HEADER = {
  name: 'x-service-account',
  in: 'header',
  required: false,
  description: 'Identifier of the account; must be the one of the API key',
  schema: { type: 'string' },
};

function operation({ about, access }: Route, schemas: Schemas): Json {
  const body = about.shownBody ?? about.body;
  const content = about.upload ? UPLOAD_CONTENT : body && json(schemas.of(body, 'input'));
  return {
    operationId: operationId(about.method, about.path),
    summary: about.summary,
    tags: [about.tag],
    ...(about.deprecated === true ? { deprecated: true } : {}),
    ...(access === 'key' ? {} : { security: [] }),
    parameters: [
      ...[...about.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => pathParameter(name!)),
      ...(about.query ? queryParameters(schemas.of(about.query, 'input')) : []),
      ...(access === 'key' ? [ACCOUNT_HEADER] : []),
    ],
    ...(content ? { requestBody: { required: about.optionalBody !== true, content } } : {}),
    responses: responses({ about, access }, schemas),
  };
}

function responses({ about, access }: Pick<Route, 'about' | 'access'>, schemas: Schemas): Json {
  const errors = [...ANY_ERRORS, ...(about.errors ?? []), ...(access === 'key' ? KEY_ERRORS : [])];
  const bodyErrors = about.body === undefined && about.upload === undefined ? [] : [413, 415];
  const described = [...errors, ...bodyErrors].map((status) => [
    String(status),
    { description: STATUS_CODES[status], content: json({ $ref: '#/components/schemas/Error' }) },
  ]);
  const reply = about.reply ? { content: json(schemas.of(about.reply, 'output')) } : {};
  const statuses = about.file === true ? FILE_STATUSES : [about.status];
  const content = about.file === true ? { content: FILE_CONTENT } : reply;
  return {
    ...Object.fromEntries(
      statuses.map((status) => [String(status), { description: STATUS_CODES[status], ...content }]),
    ),
    ...Object.fromEntries(described),
  };
}

const json = (schema: Json): Json => ({ 'application/json': { schema } });

const pathParameter = (name: string): Json => ({
  name,
  in: 'path',
  required: true,
  schema: { type: 'string' },
});

function queryParameters(shape: Json): Json[] {
  const { properties = {}, required = [] } = shape as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema,
  }));
}

/** `get /v1/checks/{id}` → `getV1ChecksById` */
function operationId(method: string, path: string): string {
  const words = path
    .replace(/\{(\w+)\}/g, (_all, name: string) => `by-${name}`)
    .split(/[^A-Za-z0-9]+/)
    .filter((word) => word !== '');
  return method.toLowerCase() + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
}

/** JSON Schemas; those with an id are collected under `components` and referred to. */
class Schemas {
  readonly named: Record<string, Json> = {};

  of(schema: z.ZodType, io: 'input' | 'output'): Json {
    const whole = z.toJSONSchema(schema, {
      io,
      unrepresentable: 'any',
      target: 'draft-2020-12',
      override: showDefault,
    });
    const text = JSON.stringify(whole).replaceAll('"#/$defs/', '"#/components/schemas/');
    const { $defs = {}, ...rest } = JSON.parse(text) as Json & { $defs?: Record<string, Json> };
    for (const [name, each] of Object.entries($defs)) this.named[name] = without(each, SCHEMA_WORDS);
    const shape = without(rest, SCHEMA_WORDS);
    if (typeof rest.id !== 'string') return shape;
    this.named[rest.id] = shape;
    return { $ref: `#/components/schemas/${rest.id}` };
  }
}

/** zod leaves out the default of what it changes on the way in, such as texts that may come as numbers. */
function showDefault({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodTypes; jsonSchema: Json }): void {
  if (zodSchema instanceof z.ZodDefault) jsonSchema['default'] ??= zodSchema.def.defaultValue;
}

/** Words of a JSON Schema that have no place inside a document. */
const SCHEMA_WORDS = ['$schema', 'id', '$id'];

function without(schema: Json, words: readonly string[]): Json {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !words.includes(name)));
}
