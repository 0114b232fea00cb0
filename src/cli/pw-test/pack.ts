import { Pack } from 'tar';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import { MAX_BUNDLE_BYTES } from '../../contract/index.ts';

/** Any instant, the same for all. */
const NO_TIME = new Date(0);

/**
 * The archive of a project. Equal files make equal archives, whoever packs them and when.
 *
 * @throws FatalError with exit code 2 when it is larger than the service takes
 */
export async function pack(root: string, files: readonly string[]): Promise<Buffer> {
  const archive = new Pack({
    cwd: root,
    gzip: { level: 9 },
    portable: true,
    mtime: NO_TIME,
    noDirRecurse: true,
    strict: true,
  });
  for (const file of files) archive.write(file);
  archive.end();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of archive) {
    const part = Buffer.from(chunk);
    bytes += part.byteLength;
    if (bytes > MAX_BUNDLE_BYTES) throw tooLarge();
    chunks.push(part);
  }
  return Buffer.concat(chunks);
}

function tooLarge(): FatalError {
  return new FatalError(
    ExitCode.usage,
    `pw-test: the project has more than ${MAX_BUNDLE_BYTES / 1e6} MB when it is packed: let git ignore large files that the tests do not need`,
  );
}
