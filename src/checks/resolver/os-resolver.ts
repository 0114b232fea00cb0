import { lookup } from 'node:dns/promises';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { AgentFault } from '../check-type.ts';
import { NameError } from '../resolve.ts';
import type { Found } from './stub.ts';

const SOURCE = 'OS resolver';
const NO_SUCH_NAME = new Set(['ENOTFOUND', 'ENODATA', 'EAI_NONAME', 'EAI_NODATA', 'EAI_ADDRFAMILY']);

/**
 * Asks `getaddrinfo`. It cannot tell a broken domain from an unreachable resolver (both are EAI_AGAIN),
 * so that is laid to the agent and not to the target.
 */
export async function askOs(name: string, family: 4 | 6): Promise<Found> {
  try {
    const found = await lookup(name, { family, all: true, order: 'verbatim' });
    return { addresses: found.map(({ address }) => address), source: SOURCE, ttlSeconds: 0 };
  } catch (error) {
    if (NO_SUCH_NAME.has(codeOf(error) ?? '')) {
      const message = `${name} has no IPv${family} address (asked the ${SOURCE})`;
      throw new NameError('ENOTFOUND', name, SOURCE, message);
    }
    const message = `the ${SOURCE} could not resolve ${name}: ${messageOf(error)}`;
    throw new AgentFault('RESOLVER_UNREACHABLE', message, {}, { cause: error });
  }
}
