/**
 * The files that a run leaves behind, on their way to the service. Hides which files are refused and why
 * (a run may leave links, pipes and endless files), how text in them is scrubbed, archives included, the
 * store in the data folder, and the upload in parts that goes on after any break. A file is read only
 * when nothing of its run is alive.
 */
export { collect, type CollectOptions } from './collect.ts';
export { openAtRest } from './at-rest.ts';
export { packFolder } from './pack.ts';
export { Refusal } from './refusal.ts';
export type { ArtifactTarget } from './upload.ts';
export { ArtifactUploader, type FileSource } from './uploader.ts';
