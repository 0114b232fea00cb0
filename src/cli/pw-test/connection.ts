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
 * By --data-dir, else by VEDETTE_URL and VEDETTE_API_KEY, else by the data folder of `vedette up` here or above.
 * A key is sent to the service that it is named with, and to no other.
 *
 * @throws FatalError with exit code 2 when nothing of it is there
 */
export async function findConnection(
  folder: string,
  wanted: { location: string | undefined; dataDir: string | undefined },
  env: Environment,
): Promise<Connection> {
  const location = wanted.location ?? env['VEDETTE_LOCATION'] ?? null;
  const named = wanted.dataDir === undefined ? namedIn(env) : undefined;
  if (named !== undefined) return { ...named, location };
  const dataDir = wanted.dataDir ?? findDataDir(folder);
  const credentials = dataDir === undefined ? undefined : await readCredentials(dataDir);
  if (credentials === undefined) {
    throw refused(
      wanted.dataDir === undefined
        ? 'no service is known: set VEDETTE_URL and VEDETTE_API_KEY, or name the folder of vedette up with --data-dir'
        : `--data-dir=${wanted.dataDir}: has no credentials.json; vedette up makes it`,
    );
  }
  return {
    url: credentials.serviceUrl,
    apiKey: credentials.apiKey,
    accountId: credentials.accountId,
    location: location ?? credentials.privateLocation?.slugName ?? null,
  };
}

/** @throws FatalError when only half of it is there */
function namedIn(env: Environment): Omit<Connection, 'location'> | undefined {
  const { VEDETTE_URL: url = '', VEDETTE_API_KEY: apiKey = '', VEDETTE_ACCOUNT_ID: accountId } = env;
  if (url === '' && apiKey === '') return undefined;
  if (url === '') throw refused('VEDETTE_API_KEY is set, but not VEDETTE_URL, the address of its service');
  if (apiKey === '') throw refused('VEDETTE_URL is set, but not VEDETTE_API_KEY, an API key of its account');
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw refused('VEDETTE_URL: must be an address such as https://monitoring.example');
  }
  return { url: url.replace(/\/+$/, ''), apiKey, accountId: accountId ?? null };
}

const refused = (message: string): FatalError => new FatalError(ExitCode.usage, `pw-test: ${message}`);

function findDataDir(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    const dataDir = join(at, '.vedette');
    if (existsSync(join(dataDir, 'credentials.json'))) return dataDir;
    if (dirname(at) === at) return undefined;
  }
}
