/**
 * Takes secrets out of everything that leaves a run: results, logs, text files. Hides the forms in which a
 * secret appears (URL, base64, hex, JSON, HTML), one pass over the bytes for all of them (Wu-Manber, one to
 * two gigabytes per second), hits that overlap or lie across chunks, and what is too generic to be a secret.
 * Fails closed: with more secrets than it can look for, nothing but the mask leaves.
 */
export { createScrubber, type Scrubber } from './scrubber.ts';
export type { Pass } from './pass.ts';
export { MASK } from './forms.ts';
export { secretsOf } from './secrets.ts';
