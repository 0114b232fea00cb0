import { createHash } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { x as extract } from 'tar';

/** @param integrity as registries have it: `sha512-` and the hash in Base64 */
export const hasIntegrity = (archive: Buffer, integrity: string): boolean =>
  integrity === `sha512-${createHash('sha512').update(archive).digest('base64')}`;

/** Unpacks an archive of a registry as npm would. */
export async function unpackPackage(archive: Buffer, into: string): Promise<void> {
  const packed = `${into}.tgz`;
  await mkdir(into, { recursive: true });
  await writeFile(packed, archive);
  await extract({ file: packed, cwd: into, strip: 1, noMtime: true, preserveOwner: false });
  await rm(packed);
}
