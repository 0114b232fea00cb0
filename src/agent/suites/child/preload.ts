import childProcess from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { browserArguments, installNetwork, namingBrowserFailure } from '../../scripts/child/network.ts';

/*
 * Runs first in every Node process of a suite: package managers, Playwright, its workers, web servers of the
 * project. Leads what they connect to, and the browsers that they start, through the gate, whose port is in
 * our own address.
 */
const port = Number(new URL(import.meta.url).searchParams.get('port'));
const proxy = { host: '127.0.0.1', port };

const OWN_PROXY =
  'a proxy of the project itself needs an agent with SCRIPT_EGRESS=open; this one reaches targets through the agent';

/** Whatever Playwright's version, it starts a browser with the pipe that it speaks on. */
function withProxy(args: readonly string[]): string[] {
  if (args.includes('-juggler-pipe')) return withFirefoxProxy(args);
  if (args.includes('--inspector-pipe')) return [...args, `--proxy=socks5://${proxy.host}:${port}`];
  if (!args.some((arg) => /^--remote-debugging-(pipe|port)\b/.test(arg))) return [...args];
  if (args.some((arg) => arg.startsWith('--proxy-server='))) throw new Error(OWN_PROXY);
  return ['--disable-quic', ...browserArguments(proxy), ...args];
}

/** Firefox has its settings in a file of its profile. */
function withFirefoxProxy(args: readonly string[]): string[] {
  const profile = args[args.indexOf('-profile') + 1];
  const settings = {
    'network.proxy.type': 1,
    'network.proxy.socks': proxy.host,
    'network.proxy.socks_port': port,
    'network.proxy.socks_version': 5,
    'network.proxy.socks_remote_dns': true,
    'network.proxy.no_proxies_on': '',
    'network.proxy.allow_hijacking_localhost': true,
    'network.http.http3.enable': false,
  };
  const lines = Object.entries(settings).map(
    ([name, value]) => `user_pref(${JSON.stringify(name)}, ${JSON.stringify(value)});\n`,
  );
  if (profile !== undefined) appendFileSync(join(profile, 'user.js'), lines.join(''));
  return [...args];
}

/**
 * Native programs know the gate as a proxy for HTTP. What runs in Node must not: connections there lead to
 * the gate by themselves, and a library that reads these variables would speak to a proxy, with its errors.
 */
const GATE = `http://${proxy.host}:${port}`;
const forNative = Object.fromEntries(
  ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy']
    .filter((name) => process.env[name] === GATE)
    .map((name) => [name, GATE]),
);
for (const name of Object.keys(forNative)) delete process.env[name];

/** Every process that does not block its parent begins here, whichever function it was asked of. */
interface Starter {
  spawn: (this: Starter, options: { args?: string[]; envPairs?: string[] }) => unknown;
}

function patchSpawn(): void {
  const starter = childProcess.ChildProcess.prototype as unknown as Starter;
  const own = starter.spawn;
  starter.spawn = function (options) {
    const { args: [name = '', ...args] = [], envPairs = [] } = options;
    const pairs = Object.entries(forNative).map(([key, value]) => `${key}=${value}`);
    return own.call(this, {
      ...options,
      args: [name, ...withProxy(args)],
      envPairs: [...envPairs, ...pairs],
    });
  };
}

function patchBlocking(): void {
  for (const name of ['spawnSync', 'execFileSync', 'execSync'] as const) {
    const own = childProcess[name] as (...given: unknown[]) => unknown;
    const patched = (...given: unknown[]): unknown => {
      const last = given.at(-1);
      const hasOptions = typeof last === 'object' && last !== null && !Array.isArray(last);
      const options = hasOptions ? (last as { env?: NodeJS.ProcessEnv }) : {};
      const others = (hasOptions ? given.slice(0, -1) : given).filter((each) => each !== undefined);
      return own(...others, { ...options, env: { ...(options.env ?? process.env), ...forNative } });
    };
    Object.assign(childProcess, { [name]: patched });
  }
}

installNetwork(proxy);
patchSpawn();
if (Object.keys(forNative).length > 0) patchBlocking();
syncBuiltinESMExports();

/** Our reporter runs in the project's Playwright and can import nothing. */
Object.assign(globalThis, { [Symbol.for('vedette.words')]: namingBrowserFailure });
