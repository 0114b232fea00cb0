/** Bundles belong to no day: this one is never older than what is kept. */
const NO_DAY = new Date('9999-12-31T00:00:00Z');

/** Where the bytes of a bundle are, as a Blob. */
export const bundleBlob = ({ blob_id, size }: { blob_id: string; size: number }) => ({
  id: blob_id,
  day: NO_DAY,
  size,
});
