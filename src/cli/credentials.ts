import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { codeOf, ExitCode, FatalError } from '../kit/errors.ts';

/** credentials.json of a data folder: all that a program needs to use the service of `vedette up`. */
const Credentials = z.object({
  serviceUrl: z.string(),
  apiKey: z.string(),
  accountId: z.string(),
  /** Missing until the first start has made the location. */
  privateLocation: z.object({ slugName: z.string(), key: z.string() }).optional(),
});
export type Credentials = z.infer<typeof Credentials>;

/** @throws FatalError with exit code 2 when the file is there but cannot be used */
export async function readCredentials(dataDir: string): Promise<Credentials | undefined> {
  return readState(join(dataDir, 'credentials.json'), Credentials);
}

export async function writeCredentials(dataDir: string, credentials: Credentials): Promise<void> {
  await writeState(join(dataDir, 'credentials.json'), credentials);
}

/** A small JSON file of the data folder; undefined when there is none. */
export async function readState<T>(file: string, schema: z.ZodType<T>): Promise<T | undefined> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw new FatalError(ExitCode.usage, `cannot read ${file} (${codeOf(error)})`, { cause: error });
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new FatalError(
      ExitCode.usage,
      `${file} is damaged; restore it, or delete the folder to start anew`,
      {
        cause: error,
      },
    );
  }
}

/** Replaces the file as a whole, readable by its owner only. */
export async function writeState(file: string, value: object): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** @throws FatalError with exit code 2 when the folder cannot be made */
export async function makeDataDir(dataDir: string): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new FatalError(ExitCode.usage, `cannot create the data folder ${dataDir} (${codeOf(error)})`, {
      cause: error,
    });
  }
}
