import { once } from 'node:events';
import {
  readAgentSettings,
  startAgent,
  type AgentSettings,
  type Once,
  type RunningAgent,
} from '../agent/index.ts';
import { hardenSelf } from '../agent/sandbox/index.ts';
import { createScrubber, secretsOf } from '../agent/scrub/index.ts';
import { ExitCode, FatalError } from '../kit/errors.ts';
import { createLog } from '../kit/log.ts';
import { integer, readSettings, setting } from '../kit/settings.ts';
import { VERSION } from '../kit/version.ts';
import type { Invocation } from './command.ts';
import type { Shutdown } from './signals.ts';

/** `vedette agent`: the agent alone, until a signal drains it, or until it has had its runs. */
export async function agent({ env, options, shutdown }: Invocation): Promise<ExitCode> {
  const once = readOnce(options);
  const { values: settings, warnings } = readAgentSettings(env);
  const { logLevel: level, logFormat: format } = settings;
  const scrubber = createScrubber(ownSecrets(settings));
  const log = createLog({ level, format, name: 'agent', scrub: (line) => scrubber.text(line) });
  for (const warning of warnings) log.warn({ warning }, 'unknown setting');
  hardenSelf();
  const running = await startAgent(settings, {
    log,
    version: VERSION,
    ...(once === undefined ? {} : { once }),
  });
  void endWhenAsked(running, shutdown);
  // The parent that keeps a channel to this process, `vedette up`, took the service with it.
  process.once('disconnect', () => running.kill());
  await running.done;
  return ExitCode.done;
}

const ONCE = {
  once: setting('--once', integer(1, 1_000_000).optional(), { meaning: 'Runs that the agent takes.' }),
  wait: setting('--wait', integer(1, 86_400).optional(), { meaning: 'Seconds without a run.' }),
};

/** @throws FatalError exit 2 */
function readOnce(options: Invocation['options']): Once | undefined {
  const text = (name: string): string | undefined =>
    typeof options[name] === 'string' ? options[name] : undefined;
  const { once, wait } = readSettings(ONCE, { '--once': text('once'), '--wait': text('wait') }).values;
  if (once !== undefined) return { runs: once, waitMs: wait === undefined ? null : wait * 1000 };
  if (wait === undefined) return undefined;
  throw new FatalError(
    ExitCode.usage,
    'agent: --wait needs --once: it says when to give up waiting for a run',
  );
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
