import { z } from 'zod';
import { Artifact } from './results.ts';

/** Largest artifact that the service takes, bytes (150 MiB); agents refuse above 150,000,000. */
export const MAX_ARTIFACT_BYTES = 157_286_400;
/** All parts but the last have this size, bytes. */
export const PART_BYTES = 8 * 1024 * 1024;

/**
 * Announces one artifact of a result that is stored already. Idempotent by (resultId, name). 404 when
 * the result is unknown to this location, 413 above MAX_ARTIFACT_BYTES, 409 when size or sha256 differ
 * from the result's manifest.
 */
export const OpenArtifact = {
  method: 'POST',
  path: '/agent/v1/artifacts',
  body: Artifact.pick({ name: true, size: true, contentType: true }).extend({
    resultId: z.uuid(),
    sha256: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  reply: z.object({
    artifactId: z.uuid(),
    /** Parts go to this service. Others may follow (`s3`), with an address per part. */
    mode: z.literal('service'),
    partBytes: z.int().positive(),
    /** Numbers of the parts that are here already, from 1. */
    have: z.array(z.int().positive()),
    state: z.enum(['open', 'stored']),
  }),
} as const;

/** `content-type: application/octet-stream`, header `x-part-sha256`; 204 once the part survives a crash. */
export const PutPart = {
  method: 'PUT',
  path: '/agent/v1/artifacts/:artifactId/parts/:n',
} as const;
export const PART_SHA256_HEADER = 'x-part-sha256';

/** What is here, after any break. The reply is OpenArtifact's. */
export const GetArtifact = { method: 'GET', path: '/agent/v1/artifacts/:artifactId' } as const;

/**
 * Checks size and SHA-256 of the whole and keeps it. Idempotent. 409 with `have` when parts are missing,
 * 422 when the hash is wrong: then the parts are gone and the upload begins again.
 */
export const CompleteArtifact = {
  method: 'POST',
  path: '/agent/v1/artifacts/:artifactId/complete',
  reply: z.object({ state: z.literal('stored') }),
} as const;
