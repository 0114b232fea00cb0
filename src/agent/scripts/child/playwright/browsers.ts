import type { WarmUp } from '../../protocol.ts';
import { browserArguments } from '../network.ts';
import type { LaunchOptions } from './playwright-types.ts';

/** How the browsers of one job are started. */
export interface BrowserPolicy {
  /** The job folder: home of the browser, too. */
  folder: string;
  proxy: WarmUp['proxy'];
  /** Whether Chromium's own sandbox works inside ours here. */
  sandbox: boolean;
  checkType: 'BROWSER' | 'MULTI_STEP';
  /** The whole Chromium instead of its headless shell. */
  full: boolean;
}

/**
 * No vendor's services, no QUIC (it knows no proxy), no shared memory outside the job folder: Playwright
 * adds the last one itself.
 */
const ARGS = [
  '--disable-quic',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

/**
 * What a browser is started with, whatever a script asked for: the runtime's Chromium, headless, in the
 * walls of the job. The whole one needs sockets in the file system, so the walls say whether it can start.
 *
 * @throws Error that says what a script may do instead
 */
export function launchOptions(name: string, asked: LaunchOptions, policy: BrowserPolicy): LaunchOptions {
  if (policy.checkType === 'MULTI_STEP') {
    throw new Error('a multistep check has no browser; make it a browser check to open pages');
  }
  if (name !== 'chromium') {
    throw new Error(
      `${name} is not there: browser checks run in Chromium; a Playwright suite may use ${name}`,
    );
  }
  const { executablePath: _own, env: _env, channel: _channel, proxy, ...rest } = asked;
  if (proxy !== undefined && policy.proxy !== null) {
    throw new Error(
      'a proxy of the script itself needs an agent with SCRIPT_EGRESS=open; this one reaches targets through the agent',
    );
  }
  return {
    ...rest,
    args: [...ARGS, ...browserArguments(policy.proxy), ...(asked.args ?? [])],
    headless: true,
    ...(policy.full ? { channel: 'chromium' } : {}),
    ...(proxy === undefined ? {} : { proxy }),
    chromiumSandbox: policy.sandbox,
    // Not the variables of the run: they are the script's.
    env: environmentOf(policy.folder),
  };
}

function environmentOf(folder: string): LaunchOptions['env'] {
  const values = {
    HOME: folder,
    TMPDIR: folder,
    XDG_CONFIG_HOME: folder,
    XDG_CACHE_HOME: folder,
    PATH: '/usr/bin:/bin',
    LANG: 'C.UTF-8',
    TZ: 'UTC',
  };
  return Object.entries(values).map(([name, value]) => ({ name, value }));
}
