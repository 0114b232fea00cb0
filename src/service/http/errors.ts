import { STATUS_CODES } from 'node:http';
import { Refusal, type RefusalCode } from '../verbs/index.ts';

/** The only place where error bodies are made and where a refusal gets its status. */
export interface ErrorBody {
  statusCode: number;
  error: string;
  message: string;
  errorCode?: string;
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

export function errorBody(statusCode: number, message: string, errorCode?: string): ErrorBody {
  const error = STATUS_CODES[statusCode] ?? 'Error';
  return { statusCode, error, message, ...(errorCode === undefined ? {} : { errorCode }) };
}

/** Fastify's own refusals that deserve clearer words. */
const WORDS: Readonly<Record<string, string>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'content-type: must be application/json',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'content-length: does not match the body',
  FST_ERR_BAD_URL: 'the path is not a valid URL path',
};

/**
 * Anything thrown while a request was served. Undefined when it is our own fault: a 500.
 *
 * @param maxBytes of a body of this route
 */
export function refusalBody(thrown: unknown, maxBytes = 0): ErrorBody | undefined {
  if (thrown instanceof Refusal) return errorBody(STATUS[thrown.code], thrown.message, thrown.errorCode);
  if (!(thrown instanceof Error) || !('statusCode' in thrown)) return undefined;
  const { statusCode, message } = thrown;
  if (typeof statusCode !== 'number' || statusCode < 400 || statusCode >= 500) return undefined;
  const code = 'code' in thrown ? String(thrown.code) : '';
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    return errorBody(statusCode, `body: is too large; ${Math.floor(maxBytes / 1024 ** 2)} MB is allowed`);
  }
  return errorBody(statusCode, WORDS[code] ?? message);
}
