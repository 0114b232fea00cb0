import { once } from 'node:events';
import { readAgentSettings, startAgent, type RunningAgent } from '../agent/index.ts';
import { ExitCode } from '../kit/errors.ts';
import { createLog } from '../kit/log.ts';
import { VERSION } from '../kit/version.ts';
import type { Invocation } from './command.ts';
import type { Shutdown } from './signals.ts';

/** `vedette agent`: the agent alone, until a signal drains it. */
export async function agent({ env, shutdown }: Invocation): Promise<ExitCode> {
  const { values: settings, warnings } = readAgentSettings(env);
  const log = createLog({ level: settings.logLevel, format: settings.logFormat, name: 'agent' });
  for (const warning of warnings) log.warn({ warning }, 'unknown setting');
  const running = await startAgent(settings, { log, version: VERSION });
  void endWhenAsked(running, shutdown);
  // The parent that keeps a channel to this process, `vedette up`, took the service with it.
  process.once('disconnect', () => running.kill());
  await running.done;
  return ExitCode.done;
}

async function endWhenAsked(running: RunningAgent, { drain, kill }: Shutdown): Promise<void> {
  kill.addEventListener('abort', () => running.kill(), { once: true });
  if (!drain.aborted) await once(drain, 'abort');
  await running.drain().catch(() => undefined);
}
