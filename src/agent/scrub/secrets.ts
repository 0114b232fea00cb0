import { z } from 'zod';
import type { Job } from '../../contract/index.ts';

/** Variables with this prefix are secret whatever their definition says. */
export const SECRET_PREFIX = 'SERVICE_SECRET_';

/** What of a check's definition may be secret. Everything is optional: a definition comes from the wire. */
const Secretive = z.object({
  environmentVariables: z
    .array(z.object({ key: z.string(), value: z.string(), secret: z.boolean().optional() }))
    .nullish()
    .catch(null),
  request: z
    .object({
      url: z.string().optional().catch(undefined),
      basicAuth: z.object({ password: z.string() }).nullish().catch(null),
    })
    .optional()
    .catch(undefined),
});

/**
 * The values that must not leave with what a job found: its secret variables, the credentials of its
 * addresses, and the agent's own.
 */
export function secretsOf(job: Pick<Job, 'spec' | 'proxyUrl'>, own: readonly string[]): string[] {
  const { environmentVariables, request } = Secretive.parse(job.spec);
  const variables = (environmentVariables ?? [])
    .filter(({ key, secret }) => secret === true || key.startsWith(SECRET_PREFIX))
    .map(({ value }) => value);
  const addresses = [job.proxyUrl, request?.url].flatMap((url) => credentialOf(url ?? ''));
  const { password } = request?.basicAuth ?? {};
  const typed = password === undefined || isTemplate(password) ? [] : [password];
  return [...new Set([...variables, ...addresses, ...typed, ...own])];
}

/** The secret part of `//user:password@` or `//token@`, as written and as meant. */
function credentialOf(url: string): string[] {
  const [, user = '', password] = /^[a-z][a-z0-9+.-]*:\/\/([^/?#:]*)(?::([^/?#]*))?@/i.exec(url) ?? [];
  const secret = password ?? user;
  return secret === '' || isTemplate(secret) ? [] : [secret, decoded(secret)];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Its value is a variable's, which says itself whether it is secret. */
const isTemplate = (text: string): boolean => text.includes('{{');
