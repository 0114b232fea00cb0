import { z } from 'zod';
import { RunRef } from './job.ts';

/** Largest archive of a suite's project, bytes. */
export const MAX_BUNDLE_BYTES = 150_000_000;

/**
 * The archive of a suite's project as it was uploaded, named by its SHA-256, which the agent checks. 404 when
 * no check of this location uses it. `content-type: application/octet-stream`, with `content-length`.
 */
export const GetBundle = { method: 'GET', path: '/agent/v1/bundles/:sha256' } as const;

/** Of one message; what a suite prints faster is left out there, and not in its result. */
export const MAX_LOG_BYTES = 64 * 1024;

/**
 * What a suite has printed since the last message, scrubbed, while somebody reads along: at most one message
 * in a second, sent in order. 204 when it was kept, 409 when the run is of another token: then nobody reads
 * it any more. Nothing is sent again; the result has the whole log.
 */
export const PostLog = {
  method: 'POST',
  path: '/agent/v1/logs',
  body: RunRef.extend({ text: z.string().max(MAX_LOG_BYTES) }),
} as const;
