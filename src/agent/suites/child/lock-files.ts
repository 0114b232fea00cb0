const VERSION = String.raw`(\d+\.\d+\.\d+(?:-[\w.]+)?)`;
/** The test runner, else the library that it is built on. */
const PACKAGES = ['@playwright/test', 'playwright', 'playwright-core'];

/** How each lock file names a package with its version. */
const PATTERNS: Readonly<Record<string, (name: string) => RegExp>> = {
  'package-lock.json': (name) => new RegExp(`node_modules/${name}": *\\{\\s*"version": *"${VERSION}"`),
  'npm-shrinkwrap.json': (name) => new RegExp(`node_modules/${name}": *\\{\\s*"version": *"${VERSION}"`),
  'pnpm-lock.yaml': (name) => new RegExp(`^ {2}['"]?/?${name}[@/]${VERSION}`, 'm'),
  'yarn.lock': (name) => new RegExp(`^"?${name}@[^\\n]*:\\n\\s+version:? "?${VERSION}`, 'm'),
  'bun.lock': (name) => new RegExp(`"${name}@${VERSION}"`),
};

/** The version of Playwright that a lock file fixes; null when it does not say. */
export function playwrightIn(file: string, text: string): string | null {
  const patternOf = PATTERNS[file];
  if (patternOf === undefined) return null;
  for (const name of PACKAGES) {
    const version = patternOf(name).exec(text)?.[1];
    if (version !== undefined) return version;
  }
  return null;
}
