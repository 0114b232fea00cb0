import { existsSync } from 'node:fs';
import { flushCompileCache } from 'node:module';
import { join } from 'node:path';
import { writeCompileCache } from './compile-cache.ts';

/** A program: loads what script processes load, so that its compiled form is kept. Argument: the packages' folder. */
const [modules = ''] = process.argv.slice(2);
if (!existsSync(join(modules, 'playwright'))) process.exit(0);
writeCompileCache(modules);
const { Library } = await import('./playwright/library.ts');
await import('./playwright/index.ts');
await import('./api/index.ts');
const library = new Library(modules);
library.loadCore();
library.loadTests();
flushCompileCache();
// Playwright leaves something that goes on.
process.exit(0);
