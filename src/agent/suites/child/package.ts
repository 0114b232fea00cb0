import { z } from 'zod';
import { hasIntegrity, unpackPackage } from '../package-archive.ts';
import type { Question } from '../protocol.ts';

/** Node and Bun have about 45 MB packed. */
const MAX_BYTES = 200_000_000;
const MAX_MANIFEST_BYTES = 5_000_000;
const TRIES = 3;

const Manifest = z.object({
  dist: z.object({ tarball: z.url(), integrity: z.string().startsWith('sha512-') }),
});

/** Downloads a package, checks what it is, and unpacks it as npm would. */
export async function fetchPackage(question: Extract<Question, { do: 'package' }>): Promise<void> {
  const { name, version, registry, integrity, into } = question;
  const address = `${registry.replace(/\/+$/, '')}/${name.replace('/', '%2f')}/${version}`;
  const { dist } = Manifest.parse(JSON.parse((await download(address, MAX_MANIFEST_BYTES)).toString()));
  const bytes = await download(dist.tarball, MAX_BYTES);
  if (!hasIntegrity(bytes, integrity ?? dist.integrity))
    throw new Error(`${name} ${version} from ${new URL(registry).host} is another than it should be`);
  await unpackPackage(bytes, into);
}

async function download(address: string, maxBytes: number): Promise<Buffer> {
  for (let tried = 1; ; tried++) {
    try {
      return await downloadOnce(address, maxBytes);
    } catch (error) {
      if (tried === TRIES || error instanceof Final) throw error;
    }
  }
}

class Final extends Error {}

async function downloadOnce(address: string, maxBytes: number): Promise<Buffer> {
  const response = await fetch(address).catch((error: unknown) => {
    const cause = error instanceof Error ? (error.cause ?? error) : error;
    throw new Error(`${new URL(address).host} cannot be reached (${causeOf(cause)})`);
  });
  if (response.status >= 400 && response.status < 500) {
    throw new Final(`${address} answered ${response.status}`);
  }
  if (!response.ok || response.body === null) throw new Error(`${address} answered ${response.status}`);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Final(`${address} has more than ${maxBytes / 1e6} MB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const causeOf = (cause: unknown): string =>
  cause instanceof Error ? ((cause as NodeJS.ErrnoException).code ?? cause.message) : String(cause);
