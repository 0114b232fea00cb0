import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import type { Environment } from '../../kit/settings.ts';
import { readCredentials } from '../credentials.ts';

/** Where the service is, and who we are there. */
export interface Connection {
  url: string;
  apiKey: string;
  accountId: string | null;
  /** Where to run; null: wherever there is but one place. */
  location: string | null;
}

/**
 * By VEDETTE_URL and VEDETTE_API_KEY, else by the data folder of `vedette up` here or above.
 *
 * @throws FatalError with exit code 2 when neither is there
 */
export async function findConnection(
  folder: string,
  wanted: { location: string | undefined; dataDir: string | undefined },
  env: Environment,
): Promise<Connection> {
  const { VEDETTE_URL: url, VEDETTE_API_KEY: apiKey, VEDETTE_ACCOUNT_ID: accountId } = env;
  const location = wanted.location ?? env['VEDETTE_LOCATION'] ?? null;
  if (wanted.dataDir === undefined && url !== undefined && apiKey !== undefined) {
    return { url: url.replace(/\/+$/, ''), apiKey, accountId: accountId ?? null, location };
  }
  const dataDir = wanted.dataDir ?? findDataDir(folder);
  const credentials = dataDir === undefined ? undefined : await readCredentials(dataDir);
  if (credentials === undefined) {
    throw new FatalError(
      ExitCode.usage,
      'pw-test: no service is known: set VEDETTE_URL and VEDETTE_API_KEY, or name the folder of vedette up with --data-dir',
    );
  }
  return {
    url: url ?? credentials.serviceUrl,
    apiKey: apiKey ?? credentials.apiKey,
    accountId: credentials.accountId,
    location: location ?? credentials.privateLocation?.slugName ?? null,
  };
}

function findDataDir(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const dataDir = join(at, '.vedette');
    if (existsSync(join(dataDir, 'credentials.json'))) return dataDir;
    if (dirname(at) === at) return undefined;
  }
}
