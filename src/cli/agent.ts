import { once } from 'node:events';
import { readAgentSettings, startAgent, type AgentSettings, type RunningAgent } from '../agent/index.ts';
import { hardenSelf } from '../agent/sandbox/index.ts';
import { createScrubber, secretsOf } from '../agent/scrub/index.ts';
import { ExitCode } from '../kit/errors.ts';
import { createLog } from '../kit/log.ts';
import { VERSION } from '../kit/version.ts';
import type { Invocation } from './command.ts';
import type { Shutdown } from './signals.ts';

/** `vedette agent`: the agent alone, until a signal drains it. */
export async function agent({ env, shutdown }: Invocation): Promise<ExitCode> {
  const { values: settings, warnings } = readAgentSettings(env);
  const { logLevel: level, logFormat: format } = settings;
  const scrubber = createScrubber(ownSecrets(settings));
  const log = createLog({ level, format, name: 'agent', scrub: (line) => scrubber.text(line) });
  for (const warning of warnings) log.warn({ warning }, 'unknown setting');
  hardenSelf();
  const running = await startAgent(settings, { log, version: VERSION });
  void endWhenAsked(running, shutdown);
  // The parent that keeps a channel to this process, `vedette up`, took the service with it.
  process.once('disconnect', () => running.kill());
  await running.done;
  return ExitCode.done;
}

/** The key, and the credentials of the proxies. */
function ownSecrets({ apiKey, httpProxy, httpsProxy }: AgentSettings): string[] {
  return [httpProxy, httpsProxy].flatMap((url) => secretsOf({ spec: {}, proxyUrl: url ?? null }, [apiKey]));
}

async function endWhenAsked(running: RunningAgent, { drain, kill }: Shutdown): Promise<void> {
  kill.addEventListener('abort', () => running.kill(), { once: true });
  if (!drain.aborted) await once(drain, 'abort');
  await running.drain().catch(() => undefined);
}
