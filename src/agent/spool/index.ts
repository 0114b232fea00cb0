/**
 * Keeps results, and the files that belong to them, on disk from the moment a run ends until the service
 * has committed them. Hides the database in the data folder (one file, opened by one process only), group
 * commits, batching, compression, receipts, back-off, and what happens on a full or read-only disk.
 * Results are never shed: files are, those of passed runs first, and when results alone fill the spool the
 * agent takes no more work. The agent's id lives in the same file.
 */
export type { SpooledFile } from './shelf.ts';
export { openSpool, type Spool, type SpoolState } from './spool.ts';
export { Uploader, type UploadTarget } from './upload.ts';
