import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { type Environment, execute } from './execute.ts';
import { OPEN_POLICY } from './target-policy/index.ts';

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
/** Of each type; after the third the times of a check no longer fall much. */
const ROUNDS = 3;

/**
 * Runs a few checks against a listener of this process, so that the first real one does not carry the
 * process's own start in its times: 40 ms of loading and compiling, 15 of them between request and first
 * byte (measured on a fresh process). Whatever goes wrong here goes wrong again where it is reported.
 */
export async function warmUp(environment: Environment): Promise<void> {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', () => socket.end(ANSWER));
  });
  try {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const jobs = [
      {
        checkType: 'URL',
        spec: {
          request: {
            url: `http://localhost:${port}/`,
            assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
          },
        },
      },
      { checkType: 'TCP', spec: { request: { hostname: 'localhost', port } } },
    ];
    const open = { ...environment, targets: OPEN_POLICY };
    for (let round = 0; round < ROUNDS; round++) {
      for (const job of jobs) {
        await execute({ ...job, timeoutMs: 2000, proxyUrl: null }, open, new AbortController().signal);
      }
    }
  } catch {
    return;
  } finally {
    server.close();
  }
}
