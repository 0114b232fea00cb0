#!/usr/bin/env node
/**
 * The first file that runs, under whatever Node ≥ 18 the machine has. It installs the packages when they
 * are missing or older than package-lock.json, and hands over to the Node that came with them:
 *
 *   bootstrap.mjs [COMMAND …]            the vedette command
 *   bootstrap.mjs --script FILE [ARG …]  a development script of this checkout
 *
 * Plain JavaScript without dependencies, because neither is there yet.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** First Node that strips types without a flag or a warning. */
const OLDEST_NODE = [24, 12];
const EXIT_USAGE = 2;
const EXIT_INTERNAL = 3;
const INSTALL_WAIT_MS = 600_000;
const SHOWN_LINES = 20;

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');
const binFolder = join(root, 'node_modules/.bin');
const source = join(root, 'src/cli/main.ts');
/** False in a packed release: there is only dist/, and its packages came with it. */
const isCheckout = existsSync(source);

function say(line) {
  process.stderr.write(`vedette: ${line}\n`);
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}

/**
 * Compares the lock file with npm's own record of what it installed, which it writes last. Packages
 * for other platforms are absent rightly.
 */
function isInstalled() {
  const installed = readPackages(join(root, 'node_modules/.package-lock.json'));
  if (!installed) return false;
  return Object.entries(readPackages(join(root, 'package-lock.json')) ?? {}).every(([path, wanted]) => {
    if (path === '') return true;
    const found = installed[path];
    return found ? found.version === wanted.version : wanted.optional === true || wanted.peer === true;
  });
}

/** One installation at a time per checkout; the lock of a process that died is taken over. */
async function withInstallLock(work) {
  const lock = join(root, '.install.lock');
  const giveUpAt = Date.now() + INSTALL_WAIT_MS;
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' });
      break;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
      if (Date.now() > giveUpAt) throw new Error(`another start is still installing; if not, delete ${lock}`);
    }
    if (holderIsGone(lock)) rmSync(lock, { force: true });
    else await sleep(300);
  }
  try {
    return await work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function holderIsGone(lock) {
  try {
    const holder = Number(readFileSync(lock, 'utf8'));
    // Empty: its owner is between creating and writing it.
    if (holder === 0) return false;
    process.kill(holder, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}

async function install() {
  if (isInstalled()) return;
  const begun = Date.now();
  say('installing the packages of package-lock.json with npm ci, once; this takes about a minute');
  // npm's own Node and path, since a Node under node_modules disappears while npm works there.
  const npm = process.env.npm_execpath?.endsWith('.js')
    ? [process.env.npm_node_execpath ?? process.execPath, process.env.npm_execpath]
    : ['npm'];
  const { code, output } = await runQuietly(
    ...npm,
    'ci',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
  );
  if (code !== 0) {
    // npm adds its whole manual page to some errors.
    process.stderr.write(`${output.split('\n').slice(0, SHOWN_LINES).join('\n')}\n`);
    throw new Error('npm ci failed; its first messages are above');
  }
  say(`packages installed in ${Math.round((Date.now() - begun) / 1000)} s`);
}

function runQuietly(file, ...args) {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, PATH: withoutOwnBin(process.env.PATH ?? '') };
    // `npm --prefix DIR test` looks for the machine's npm settings (a proxy, an authority) in DIR, and
    // hands that on.
    delete env.npm_config_prefix;
    delete env.npm_config_globalconfig;
    const child = spawn(file, args, { cwd: root, env, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk));
    for (const signal of ['SIGINT', 'SIGTERM']) {
      process.once(signal, () => {
        child.kill(signal);
        reject(new Error('stopped while installing; the next start installs again'));
      });
    }
    child.on('error', (error) => reject(new Error(`cannot start ${file}: ${error.message}`)));
    child.on('close', (code) => resolve({ code, output }));
  });
}

const withoutOwnBin = (path) =>
  path
    .split(delimiter)
    .filter((folder) => folder !== binFolder)
    .join(delimiter);

/** The pinned Node where it exists for this platform and runs, else the one at hand if it is new enough. */
function chooseNode() {
  const packages = [
    `node-${process.platform}-${process.arch}`,
    `node-bin-${process.platform}-${process.arch}`,
  ];
  const pinned = packages
    .map((name) => join(root, 'node_modules', name, 'bin/node'))
    .find((file) => existsSync(file));
  const problem =
    pinned === undefined ? 'there is no package of it for this platform' : whyNotRunning(pinned);
  if (problem === undefined) return pinned;
  // npm puts this folder first, so a Node that does not run would be the next start's `node`.
  rmSync(join(binFolder, 'node'), { force: true });
  if (isNewEnough(process.versions.node)) return process.execPath;
  say(
    `the Node.js that comes along cannot be used (${problem}) and this one, ${process.versions.node}, is older ` +
      `than ${OLDEST_NODE.join('.')}: install a newer Node.js${/libatomic/.test(problem) ? ', or libatomic1' : ''}`,
  );
  return process.exit(EXIT_USAGE);
}

function isNewEnough(version) {
  const [major, minor] = version.split('.').map(Number);
  return major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1]);
}

/** A bare Debian lacks one library that Node.js links to since version 25; as root it is fetched. */
function whyNotRunning(node) {
  const problem = tryNode(node);
  if (problem === undefined || !/libatomic\.so/.test(problem) || process.getuid?.() !== 0) return problem;
  if (!existsSync('/usr/bin/apt-get')) return problem;
  say('installing libatomic1 with apt-get, which Node.js needs');
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } };
  spawnSync('apt-get', ['update', '-q'], options);
  spawnSync('apt-get', ['install', '-q', '-y', '--no-install-recommends', 'libatomic1'], options);
  return tryNode(node);
}

/** @returns what it complains about, or undefined when it runs */
function tryNode(node) {
  const tried = spawnSync(node, ['--version'], { encoding: 'utf8' });
  if (tried.status === 0) return undefined;
  return tried.error?.message ?? tried.stderr.trim().split('\n')[0];
}

/**
 * Runs the program to its end and ends as it did. Ctrl-C reaches the program from the terminal and once
 * more from here; it counts signals that come together as one. Forwarding is for `kill`, which reaches
 * only this process.
 */
function handOver(node, args) {
  const env = {
    // Trust what the machine trusts, as other programs on it do, besides what Node.js brings along.
    NODE_USE_SYSTEM_CA: '1',
    ...process.env,
    PATH: `${binFolder}${delimiter}${withoutOwnBin(process.env.PATH ?? '')}`,
  };
  const child = spawn(node, args, { stdio: 'inherit', env });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    say(`cannot start ${node}: ${error.message}`);
    process.exit(EXIT_INTERNAL);
  });
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
}

/** @returns the file to run and its arguments */
function program([first, ...rest]) {
  if (first === '--script') return [join(root, rest[0]), ...rest.slice(1)];
  return [
    isCheckout ? source : join(root, 'dist/cli/main.js'),
    ...(first === undefined ? [] : [first, ...rest]),
  ];
}

if (isCheckout && !isInstalled()) {
  try {
    await withInstallLock(install);
  } catch (error) {
    say(error.message);
    process.exit(EXIT_INTERNAL);
  }
}
handOver(chooseNode(), program(process.argv.slice(2)));
