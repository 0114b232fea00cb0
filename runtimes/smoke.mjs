import { createRequire } from 'node:module';

/** Packages without a module under their own name: one has an entry for each framework, one is a program. */
const ENTRIES = { '@clerk/testing': '@clerk/testing/playwright', prisma: 'prisma/package.json' };

/**
 * Loads every package of a runtime, by require where it can be required and by import where it is a
 * module only, and uses some of them. Prints one JSON line; the exit code says whether all is well.
 *
 * @param url of the smoke.mjs in the runtime's folder
 * @param load `(name) => import(name)`, as seen from there
 */
export async function smoke(url, load) {
  const require = createRequire(url);
  const { dependencies } = require('./package.json');
  const names = Object.keys(dependencies).map((name) => ENTRIES[name] ?? name);
  const failed = {};
  for (const name of names) {
    try {
      require(name);
    } catch {
      await load(name).catch((error) => (failed[name] = String(error.message).split('\n')[0]));
    }
  }
  const works = {
    zod: !require('zod').z.string().safeParse(1).success,
    lodash: require('lodash').chunk([1, 2, 3], 2).length === 2,
    jsonwebtoken: typeof require('jsonwebtoken').sign({ a: 1 }, 'key') === 'string',
    playwright: typeof require('playwright').chromium.launch === 'function',
    helpers: typeof require('@vedette/playwright-helpers').markCheckAsDegraded === 'function',
  };
  console.log(JSON.stringify({ node: process.version, packages: names.length, failed, works }));
  process.exit(Object.keys(failed).length === 0 && Object.values(works).every(Boolean) ? 0 : 1);
}
