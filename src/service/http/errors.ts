import { STATUS_CODES } from 'node:http';
import { Refusal, type RefusalCode } from '../verbs/index.ts';

/** The only place where error bodies are made and where a refusal gets its status. */
export interface ErrorBody {
  statusCode: number;
  error: string;
  message: string;
}

const STATUS: Readonly<Record<RefusalCode, number>> = {
  invalid: 400,
  badKey: 401,
  forbidden: 403,
  notFound: 404,
  notFinal: 408,
  conflict: 409,
  tooLarge: 413,
  unsupportedMedia: 415,
  tooMany: 429,
};

export function errorBody(statusCode: number, message: string): ErrorBody {
  return { statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message };
}

/** Fastify's own refusals that deserve clearer words. */
const WORDS: Readonly<Record<string, string>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: 'body: is too large; 1 MB is allowed',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'content-type: must be application/json',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'content-length: does not match the body',
  FST_ERR_BAD_URL: 'the path is not a valid URL path',
};

/** Anything thrown while a request was served. Undefined when it is our own fault: a 500. */
export function refusalBody(thrown: unknown): ErrorBody | undefined {
  if (thrown instanceof Refusal) return errorBody(STATUS[thrown.code], thrown.message);
  if (!(thrown instanceof Error) || !('statusCode' in thrown)) return undefined;
  const { statusCode, message } = thrown;
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode >= 500) return undefined;
  const code = 'code' in thrown ? String(thrown.code) : '';
  return errorBody(statusCode, WORDS[code] ?? message);
}
