import { installNetwork } from '../../scripts/child/network.ts';
import type { Asked } from '../protocol.ts';
import { serve } from './channel.ts';
import { interrupt, run } from './commands.ts';
import { look } from './look.ts';
import { pack } from './pack.ts';
import { fetchPackage } from './package.ts';
import { playwrightOf } from './playwright.ts';
import { allowPrograms } from './programs.ts';
import { unpack } from './unpack.ts';
import { wrap } from './wrap.ts';

/** Entry of a suite's process. Its argument is the port of the gate; without, every target may be reached. */
const port = Number(process.argv[2] ?? 0);
installNetwork(port === 0 ? null : { host: '127.0.0.1', port });

async function answer(asked: Asked): Promise<unknown> {
  switch (asked.do) {
    case 'unpack':
      return unpack(asked);
    case 'look':
      return look(asked);
    case 'playwright':
      return playwrightOf(asked);
    case 'wrap':
      return wrap(asked);
    case 'programs':
      return allowPrograms(asked.root);
    case 'run':
      return run(asked);
    case 'interrupt':
      return interrupt(asked.pid);
    case 'pack':
      return pack(asked);
    case 'package':
      return fetchPackage(asked);
  }
}

serve(answer);
