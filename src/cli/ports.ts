import { once } from 'node:events';
import { createServer } from 'node:net';
import { codeOf, ExitCode, FatalError } from '../kit/errors.ts';

/**
 * Says early and in one line what would end the start later.
 *
 * @param option the option that chooses another port
 * @throws FatalError with exit code 2 when something listens there already, or may not
 */
export async function assertPortFree(host: string, port: number, option: string): Promise<void> {
  const server = createServer();
  try {
    server.listen({ host, port, exclusive: true });
    await once(server, 'listening');
  } catch (error) {
    const taken = codeOf(error) === 'EADDRINUSE';
    const why = taken ? 'is taken; stop the program that uses it' : `cannot be used (${codeOf(error)})`;
    throw new FatalError(ExitCode.usage, `port ${port} ${why}, or choose another port with ${option}`, {
      cause: error,
    });
  }
  server.close();
  await once(server, 'close');
}
