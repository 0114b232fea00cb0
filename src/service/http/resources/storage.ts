import { z } from 'zod';
import { MAX_BUNDLE_BYTES } from '../../../contract/index.ts';
import * as verbs from '../../verbs/index.ts';
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
];
