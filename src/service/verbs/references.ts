import type { GroupFields } from '../definitions/index.ts';
import type { z } from 'zod';
import type { Trx } from '../ports.ts';
import { bundles, locations, snippets } from '../store/index.ts';

type Referring = Pick<z.output<typeof GroupFields>, 'privateLocations'> & Record<string, unknown>;

/**
 * What a check or group mentions and the account does not have. What it has stays until the transaction
 * ends.
 */
export async function missingReferences(
  trx: Trx,
  accountId: string,
  definition: Referring,
): Promise<string[]> {
  const slugs = [...new Set(definition.privateLocations ?? [])];
  const known = await locations.holdSlugs(trx, accountId, slugs);
  const chosen = (['setupSnippetId', 'tearDownSnippetId'] as const).flatMap((field) => {
    const id = definition[field];
    return typeof id === 'number' ? [{ field, id }] : [];
  });
  const present = await snippets.holdSnippets(
    trx,
    accountId,
    chosen.map(({ id }) => id),
  );
  const bundle = definition['codeBundlePath'];
  const isThere = typeof bundle !== 'string' || (await bundles.holdBundle(trx, accountId, bundle));
  return [
    ...slugs
      .filter((slug) => !known.has(slug))
      .map((slug) => `privateLocations: ${JSON.stringify(slug.slice(0, 64))} is not a private location`),
    ...chosen.filter(({ id }) => !present.has(id)).map(({ field, id }) => `${field}: ${id} is not a snippet`),
    ...(isThere ? [] : ['codeBundlePath: no archive was uploaded with this key']),
  ];
}
