import { accessSync, constants } from 'node:fs';

/** Names in Playwright's registry. */
export const MACHINE_BROWSERS = ['chromium', 'chromium-headless-shell', 'ffmpeg'] as const;
export type MachineBrowser = (typeof MACHINE_BROWSERS)[number];

/** Debian's programs for them. /usr/bin/chromium is a script, which looks for settings of the machine. */
export const MACHINE_PROGRAMS: Readonly<Record<MachineBrowser, string>> = {
  chromium: '/usr/lib/chromium/chromium',
  'chromium-headless-shell': '/usr/lib/chromium/chromium-headless-shell',
  ffmpeg: '/usr/bin/ffmpeg',
};
/** Folders and programs that these read and run. */
export const MACHINE_FOLDERS: readonly string[] = ['/usr/lib/chromium', '/usr/bin/ffmpeg'];
export const MACHINE_PACKAGES = 'chromium chromium-headless-shell ffmpeg';

/** Programs for these that this machine lacks. */
export const missingPrograms = (names: readonly MachineBrowser[] = MACHINE_BROWSERS): string[] =>
  names.map((name) => MACHINE_PROGRAMS[name]).filter((program) => !isExecutable(program));

function isExecutable(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * A program for Node that prints where a Playwright looks for these programs, as JSON: `{chromium: {program,
 * folder}, …}` without those that it does not know.
 *
 * @param library folder of playwright-core
 */
export const layoutProgram = (library: string): string =>
  `const load = (name) => { try { return require(${JSON.stringify(library)} + name); } catch {} };
  const { registry } = load('/lib/server/registry') ?? load('/lib/coreBundle').registry;
  const found = ${JSON.stringify(MACHINE_BROWSERS)}.map((name) => [name, registry.findExecutable(name)]);
  const placeOf = (each) => ({ program: each.executablePath(), folder: each.directory });
  console.log(JSON.stringify(Object.fromEntries(
    found.filter(([, each]) => each !== undefined).map(([name, each]) => [name, placeOf(each)]))));`;
