import { createHash, randomBytes, randomUUID } from 'node:crypto';

/** A random UUID (v4). */
export const newId = (): string => randomUUID();

/**
 * A UUID (v8, RFC 9562) that is a pure function of its parts: two processes that name the same thing
 * get the same id, so inserting it twice is a conflict and not a duplicate.
 */
export function derivedId(...parts: readonly (string | number)[]): string {
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest();
  hash[6] = (hash[6]! & 0x0f) | 0x80;
  hash[8] = (hash[8]! & 0x3f) | 0x80;
  const hex = hash.toString('hex', 0, 16);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
}

/** A secret with 128 random bits behind a readable prefix, e.g. `pl_4f…`. */
export const newSecret = (prefix: string): string => `${prefix}_${randomBytes(16).toString('hex')}`;

/** SHA-256 of a secret. Our secrets carry 128 random bits, so a slow hash would add nothing. */
export const hashSecret = (secret: string): Buffer => createHash('sha256').update(secret).digest();

/** What may be shown of a secret: its last four characters. */
export const maskSecret = (secret: string): string => `...${secret.slice(-4)}`;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
export const isUuid = (text: string): boolean => UUID.test(text);
