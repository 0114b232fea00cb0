import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PART_BYTES } from '../src/contract/index.ts';
import { newId } from '../src/kit/ids.ts';

/** Takes every upload, of artifacts in parts and of anything else, and keeps nothing. */
const server = createServer((request, response) => {
  request.resume();
  request.once('end', () => {
    const path = request.url ?? '';
    if (path.includes('/parts/')) response.writeHead(204).end();
    else if (path.endsWith('/complete')) response.end(JSON.stringify({ state: 'stored' }));
    else {
      const opened = { artifactId: newId(), mode: 'service', partBytes: PART_BYTES, have: [], state: 'open' };
      response.end(JSON.stringify(opened));
    }
  });
});
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
