import { STATUS_CODES } from 'node:http';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { z } from 'zod';

/** Answers with the error body of the interface. @param retryAfterSeconds for 429 and 503 */
export function refuse(
  reply: FastifyReply,
  statusCode: number,
  message: string,
  retryAfterSeconds?: number,
): FastifyReply {
  if (retryAfterSeconds !== undefined) reply.header('retry-after', String(retryAfterSeconds));
  return reply.code(statusCode).send({ statusCode, error: STATUS_CODES[statusCode] ?? 'Error', message });
}

/** 400 that names the first field that is wrong, and what is allowed. */
export function refuseBody(reply: FastifyReply, error: z.ZodError): FastifyReply {
  const issue = error.issues[0];
  const field = issue === undefined || issue.path.length === 0 ? 'body' : issue.path.join('.');
  return refuse(reply, 400, `${field}: ${issue?.message ?? 'not readable'}`);
}

/** For what fastify itself refuses (size, content type, broken JSON) and for faults of ours. */
export async function answerError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const statusCode = error.statusCode ?? 500;
  if (statusCode >= 500) {
    request.log.error({ error: error.message }, 'agent request failed');
    refuse(reply, 503, 'The service cannot do this now.', 2);
    return;
  }
  refuse(reply, statusCode, statusCode === 415 ? 'content-type: application/json is allowed' : error.message);
}
