import type { RunPhase, RunScript, ToScript, WarmUp } from '../protocol.ts';
import { openChannel } from './channel.ts';
import { useCompileCache } from './compile-cache.ts';
import { installNetwork } from './network.ts';

/** Entry of a script process: it becomes what `warm` says, then waits for its job. */
const send = openChannel((message) => void receive(message));
let runPhase: ((phase: RunPhase) => Promise<void>) | undefined;
let runScript: ((run: RunScript) => Promise<void>) | undefined;

async function receive(message: ToScript): Promise<void> {
  if (message.t === 'warm') await warm(message);
  else if (message.t === 'phase') await runPhase?.(message);
  else await runScript?.(message);
}

async function warm(warmUp: WarmUp): Promise<void> {
  useCompileCache(warmUp.runtime.modules);
  installNetwork(warmUp.proxy);
  if (warmUp.kind === 'api') runPhase = (await import('./api/index.ts')).serveApi(warmUp, send);
  else runScript = await (await import('./playwright/index.ts')).servePlaywright(warmUp, send);
  send({ t: 'ready' });
}
