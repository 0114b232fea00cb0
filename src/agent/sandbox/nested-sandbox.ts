import { existsSync } from 'node:fs';
import { runWalled } from './trial.ts';

/** Of util-linux, which every distribution installs. */
const UNSHARE = '/usr/bin/unshare';

let known: boolean | undefined;

/**
 * Whether Chromium's own sandbox works inside ours here: where user name spaces may be made, and not as
 * root, for whom Chromium refuses it. Tried once, in walls with `nested-sandbox`. Where it is true, start
 * the browser's child with that permission and Chromium without `--no-sandbox`.
 */
export const canNestChromiumSandbox = (): boolean => (known ??= tryNamespaces());

function tryNamespaces(): boolean {
  if (process.getuid?.() === 0 || !existsSync(UNSHARE)) return false;
  const args = ['--user', '--map-root-user', '--pid', '--net', '--fork', '/bin/true'];
  return runWalled({ profile: 'browser', may: ['nested-sandbox'] }, UNSHARE, args)?.status === 0;
}
