import { ExitCode, FatalError } from '../kit/errors.ts';
import type { Credentials } from './credentials.ts';

/** The few calls that `vedette up` makes to its own service. */
export interface RestClient {
  /**
   * @returns the answer's body, or undefined for 404
   * @throws FatalError when the key is refused, Error for any other refusal
   */
  call(method: 'GET' | 'POST' | 'PUT', path: string, body?: object): Promise<unknown>;
}

export function restClient({ serviceUrl, apiKey, accountId }: Credentials): RestClient {
  return {
    call: async (method, path, body) => {
      const response = await fetch(`${serviceUrl}${path}`, {
        method,
        headers: {
          authorization: `Bearer ${apiKey}`,
          'x-service-account': accountId,
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      if (response.status === 404) return undefined;
      if (response.status === 401 || response.status === 403) throw keyRefused();
      if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
      return response.json();
    },
  };
}

function keyRefused(): FatalError {
  return new FatalError(
    ExitCode.usage,
    'credentials.json does not belong to the store beside it; restore it, or delete the data folder to start anew',
  );
}
