import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { InstalledPlaywright, Question } from '../protocol.ts';
import { Problem } from './channel.ts';

interface Registry {
  browsers: { name: string; revision: string; revisionOverrides?: Record<string, string> }[];
}

/** Found as the tests find it; without node_modules (Plug'n'Play) there is nothing to be found. */
export function playwrightOf({
  workingDir,
}: Extract<Question, { do: 'playwright' }>): Promise<InstalledPlaywright | null> {
  const runner = packageFrom(workingDir, '@playwright/test') ?? packageFrom(workingDir, 'playwright');
  if (runner === null) return Promise.resolve(null);
  const library = packageFrom(runner, 'playwright') ?? runner;
  const core = packageFrom(library, 'playwright-core');
  if (core === null) {
    throw new Problem(
      'PLAYWRIGHT_INCOMPLETE',
      'Playwright is installed without playwright-core: make the lock file anew',
    );
  }
  const { version } = JSON.parse(readFileSync(join(core, 'package.json'), 'utf8')) as { version: string };
  const { browsers } = JSON.parse(readFileSync(join(core, 'browsers.json'), 'utf8')) as Registry;
  return Promise.resolve({ version, browsers: browsers.map(({ name, revision }) => ({ name, revision })) });
}

/** The folder of a package as code in `from` gets it. */
function packageFrom(from: string, name: string): string | null {
  try {
    return dirname(createRequire(join(from, 'x.js')).resolve(`${name}/package.json`));
  } catch {
    return null;
  }
}
