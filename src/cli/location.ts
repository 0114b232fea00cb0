import { z } from 'zod';
import type { Credentials } from './credentials.ts';
import type { RestClient } from './rest-client.ts';

const Location = z.object({ id: z.string(), slugName: z.string() });
const Key = z.object({ rawKey: z.string() });

/** Makes the private location of this machine. One of the same name, left by a start that was cut off, gets a new key. */
export async function createLocation(
  rest: RestClient,
  hostname: string,
): Promise<NonNullable<Credentials['privateLocation']>> {
  const slugName = slugOf(hostname);
  const present = z.array(Location).parse(await rest.call('GET', '/v1/private-locations'));
  const same = present.find((each) => each.slugName === slugName);
  if (same !== undefined) {
    const key = Key.parse(await rest.call('POST', `/v1/private-locations/${same.id}/keys`));
    return { slugName, key: key.rawKey };
  }
  const created = await rest.call('POST', '/v1/private-locations', { name: hostname, slugName });
  const [key] = z.object({ keys: z.tuple([Key]) }).parse(created).keys;
  return { slugName, key: key.rawKey };
}

/** A slug has at most 30 letters, digits and hyphens, and does not look like a region. */
export function slugOf(hostname: string): string {
  const words = hostname
    .replace(/\..*$/, '')
    .replace(/[^A-Za-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .toLowerCase();
  const slug = words.slice(0, 30).replace(/-$/, '');
  if (slug === '') return 'this-machine';
  return /^(us|ap|ca|cn|eu|sa|af|me)-/.test(slug) ? `at-${slug}`.slice(0, 30).replace(/-$/, '') : slug;
}
