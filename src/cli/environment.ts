import { readFileSync } from 'node:fs';
import { parse } from 'dotenv';
import { codeOf, ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import type { Environment } from '../kit/settings.ts';

/**
 * The environment over the `.env` file of the working folder. An empty variable counts as unset.
 * @throws FatalError with exit code 2 when there is a `.env` that cannot be read
 */
export function readEnvironment(processEnv: Environment, dotenvFile = '.env'): Environment {
  const set = Object.entries(processEnv).filter(([, value]) => value !== undefined && value !== '');
  return { ...readDotenv(dotenvFile), ...Object.fromEntries(set) };
}

function readDotenv(file: string): Environment {
  try {
    return parse(readFileSync(file));
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return {};
    throw new FatalError(ExitCode.usage, `${file}: cannot read the file: ${messageOf(error)}`);
  }
}
