import type { SuiteJob } from '../../checks/index.ts';
import type { Project } from './protocol.ts';

type PackageManager = Project['packageManager'];

/** Package of the registry, and the version for a project that names none. */
export function packageOf({ name, version, isBerry }: PackageManager): { name: string; version: string } {
  switch (name) {
    case 'npm':
      return { name: 'npm', version: version ?? NPM };
    case 'pnpm':
      return { name: 'pnpm', version: version ?? '10.28.2' };
    case 'yarn':
      return isBerry
        ? { name: '@yarnpkg/cli-dist', version: version ?? '4.12.0' }
        : { name: 'yarn', version: version?.startsWith('1.') === true ? version : '1.22.22' };
    case 'bun':
      return { name: `@oven/bun-${process.platform}-${process.arch}`, version: version ?? '1.3.8' };
  }
}

/** Always there: `npx` is how most test commands begin. */
export const NPM = '11.6.2';

/** Installs what the lock file says, development dependencies too, and changes nothing in it. */
export function installCommand({ name, isBerry }: PackageManager, runsScripts: boolean): string {
  const without = runsScripts ? '' : ' --ignore-scripts';
  switch (name) {
    case 'npm':
      return `npm ci --include=dev --no-audit --no-fund --no-progress${without}`;
    case 'pnpm':
      return `pnpm install --frozen-lockfile --prod=false --reporter=append-only${without}`;
    case 'yarn':
      return isBerry
        ? `yarn install --immutable${runsScripts ? '' : ' --mode=skip-build'}`
        : `yarn install --frozen-lockfile --non-interactive --production=false --no-progress${without}`;
    case 'bun':
      return `bun install --frozen-lockfile --no-progress${without}`;
  }
}

/** Settings of package managers that make an installation stay below its project. */
export const INSTALL_VARIABLES: Readonly<Record<string, string>> = {
  npm_config_loglevel: 'error',
  YARN_ENABLE_GLOBAL_CACHE: 'false',
  YARN_ENABLE_TELEMETRY: '0',
  YARN_ENABLE_PROGRESS_BARS: 'false',
  COREPACK_ENABLE_STRICT: '0',
  // A package manager of another version than ours would fetch and start itself.
  npm_config_manage_package_manager_versions: 'false',
};

const DEFAULT_TEST_COMMAND = 'npx playwright test';

/** The test command with everything that the check adds to it. */
export function testCommand(
  { testCommand: said, pwProjects, pwTags, shard }: SuiteJob,
  { pnp }: PackageManager,
  config: string,
): string {
  // Without node_modules only the manager itself finds what is installed.
  const command = pnp && said === DEFAULT_TEST_COMMAND ? 'yarn playwright test' : said;
  const options = [
    ['--config', config],
    ...pwProjects.map((name) => ['--project', name]),
    ...(pwTags.length === 0 ? [] : [['--grep', pwTags.map(escaped).join('|')]]),
    ...(shard === null ? [] : [['--shard', `${shard.index}/${shard.total}`]]),
  ];
  const words = options.map(([name, value]) => `${name} ${quoted(value!)}`);
  return [handsOn(command), ...words].join(' ');
}

/** npm keeps options for itself unless two dashes come before them. */
const handsOn = (command: string): string =>
  /^npm (run(-script)? |test\b|t\b|exec )/.test(command) && !/ -- /.test(`${command} `)
    ? `${command} --`
    : command;

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
const quoted = (text: string): string =>
  /^[\w./@:=+-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
