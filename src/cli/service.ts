import { once } from 'node:events';
import { ExitCode } from '../kit/errors.ts';
import { createLog } from '../kit/log.ts';
import { readSettings } from '../kit/settings.ts';
import { startService } from '../service/index.ts';
import { SERVICE_PREFIXES, serviceSettings } from '../service/settings.ts';
import type { Invocation } from './command.ts';

/** `vedette service`: the service alone, until a signal stops it. */
export async function service({ env, shutdown }: Invocation): Promise<ExitCode> {
  const { values: settings, warnings } = readSettings(serviceSettings, env, SERVICE_PREFIXES);
  const log = createLog({ level: settings.logLevel, format: settings.logFormat, name: 'service' });
  for (const warning of warnings) log.warn({ warning }, 'unknown setting');
  const running = await startService(settings, { log });
  if (running.bootstrap !== undefined) {
    const { accountId, apiKey } = running.bootstrap;
    // On standard error, so that the key is seen once and stays out of collected logs. Who chose the key
    // knows it.
    const key = settings.bootstrapApiKey === undefined ? `${apiKey} (shown this once)` : 'as configured';
    console.error(`vedette: first start; account ${accountId}, API key ${key}`);
  }
  const asked = shutdown.drain.aborted ? Promise.resolve() : once(shutdown.drain, 'abort');
  await Promise.race([asked, running.done]);
  await running.stop(shutdown.kill);
  return ExitCode.done;
}
