import type { WrapperOptions } from '../protocol.ts';

/*
 * What a check adds to a project's config. Runs in the project's Playwright, whatever its version, so it
 * imports nothing; a part that is not as it should be is left for Playwright to complain of.
 */
type Part = Record<string | symbol, unknown>;

const USER_AGENT = 'Vedette/1.0';
const RETRIES = 2;

/** @param own the module of the project's config */
export function withAdditions(own: unknown, options: WrapperOptions): unknown {
  const config = configIn(own);
  if (!isPart(config)) return config;
  const projects = Array.isArray(config.projects)
    ? { projects: config.projects.map((project: unknown) => withProjectAdditions(project)) }
    : {};
  return {
    ...config,
    ...projects,
    workers: config.workers ?? options.workers,
    retries: config.retries ?? RETRIES,
    // A trace of a test that passed is a trace, too.
    preserveOutput: 'always',
    use: withUse(config.use, true),
    reporter: [...reportersOf(config.reporter), ...ownReporters(options)],
  };
}

/** However it was exported, and whatever made a module of it. */
function configIn(module: unknown): unknown {
  let value = module;
  for (let depth = 0; depth < 2 && isPart(value) && 'default' in value; depth++) value = value.default;
  return value;
}

const isPart = (value: unknown): value is Part =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Only what a project says itself: the rest it has from the config. */
function withProjectAdditions(project: unknown): unknown {
  if (!isPart(project)) return project;
  return { ...project, preserveOutput: undefined, use: withUse(project.use, false) };
}

function withUse(use: unknown, isDefault: boolean): Part {
  const own = isPart(use) ? use : {};
  const defaults = isDefault
    ? { video: own.video ?? 'on-first-retry', screenshot: own.screenshot ?? 'only-on-failure' }
    : {};
  const trace = isPart(own.trace) ? { ...own.trace, mode: 'on' } : 'on';
  const agent = typeof own.userAgent === 'string' ? { userAgent: `${own.userAgent} ${USER_AGENT}` } : {};
  return { ...own, ...defaults, trace, ...agent };
}

type Reporter = string | readonly [name: string, options?: unknown];

function reportersOf(reporter: unknown): Reporter[] {
  if (typeof reporter === 'string') return [[reporter]];
  return Array.isArray(reporter) ? (reporter as Reporter[]) : [['list']];
}

function ownReporters({ reporter, events, out, blob }: WrapperOptions): Reporter[] {
  return [
    [reporter, { events }],
    ['json', { outputFile: `${out}/report.json` }],
    ['html', { outputFolder: `${out}/html`, open: 'never' }],
    ...(blob === null ? [] : [['blob', { outputDir: `${out}/blob`, fileName: blob }] as const]),
  ];
}
