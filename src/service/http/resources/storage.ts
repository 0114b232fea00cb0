import { z } from 'zod';
import { MAX_BUNDLE_BYTES } from '../../../contract/index.ts';
import * as verbs from '../../verbs/index.ts';
import { FileAnswer } from '../file-answer.ts';
import { route, type Route } from '../route.ts';

export const storageRoutes: readonly Route[] = [
  route(
    {
      method: 'POST',
      path: '/next/storage/upload-code-bundle',
      tag: 'storage',
      summary: 'Upload the archive of a Playwright project: tar, packed by gzip or zstd, 150 MB at most',
      upload: { maxBytes: MAX_BUNDLE_BYTES },
      status: 201,
      reply: z.strictObject({ key: z.string().describe('For codeBundlePath') }),
    },
    async (caller, { upload }) => {
      if (upload === undefined) throw verbs.invalid(['body: is missing']);
      return verbs.storeBundle(caller, upload);
    },
  ),
  route(
    {
      method: 'GET',
      path: '/next/storage/download',
      tag: 'storage',
      summary: 'Download an archive that was uploaded, or with the header Range a part of it',
      query: z.strictObject({ key: z.string().max(200).describe('As the upload answered it') }),
      status: 200,
      file: true,
      errors: [404, 416],
    },
    async (caller, { query, asked }) => {
      const { size, sha256, read } = await verbs.openBundle(caller, query.key);
      const name = query.key.slice(query.key.lastIndexOf('/') + 1);
      return FileAnswer.of({ name, contentType: 'application/octet-stream', size, tag: sha256, read }, asked);
    },
  ),
];
