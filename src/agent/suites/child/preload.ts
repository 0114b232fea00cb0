import childProcess, { type ChildProcess } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { browserArguments, installNetwork } from '../../scripts/child/network.ts';

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

type Spawn = (file: string, args?: unknown, options?: unknown) => ChildProcess;

function patchSpawn(): void {
  const own = childProcess.spawn as Spawn;
  const spawn: Spawn = (file, args, options) =>
    Array.isArray(args) ? own(file, withProxy(args.map(String)), options) : own(file, args, options);
  childProcess.spawn = spawn as typeof childProcess.spawn;
}

installNetwork(proxy);
patchSpawn();
syncBuiltinESMExports();
