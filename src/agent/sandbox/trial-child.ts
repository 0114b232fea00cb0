import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';

/*
 * Runs behind the walls of a script and tries what they must refuse; prints what was refused. Its one
 * argument is the library for calls into C.
 */
const AF_INET = 2;
const SOCK_STREAM = 1;
const IPPROTO_MPTCP = 262;
/** Nothing listens there, and the plan does not list it. */
const CLOSED_PORT = 9;

const refuses = (attempt: () => unknown, code: string): boolean => {
  try {
    attempt();
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === code;
  }
};

function systemCallRefused(): boolean {
  const binding = { exports: {} };
  process.dlopen(binding, process.argv[2] ?? '');
  const ffi = binding.exports as {
    load(library: null): { func(declaration: string): (...values: number[]) => number };
    errno(): number;
  };
  const socket = ffi.load(null).func('int socket(int, int, int)');
  return socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP) < 0 && ffi.errno() === 1;
}

async function connectionRefused(): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const attempt = connect(CLOSED_PORT, '127.0.0.1', () => resolve(false));
  attempt.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EACCES'));
  const refused = await promise;
  attempt.destroy();
  return refused;
}

const status = readFileSync('/proc/self/status', 'utf8');
const found = {
  files: refuses(() => readdirSync('/'), 'EACCES'),
  ports: await connectionRefused(),
  signals: refuses(() => process.kill(process.ppid, 0), 'EPERM'),
  systemCalls: systemCallRefused(),
  limits: readFileSync('/proc/self/limits', 'utf8'),
  privileges: /^NoNewPrivs:\s+1/m.test(status) && /^CapEff:\s+0+$/m.test(status),
  users: process.getuid?.() !== 0,
};
process.stdout.write(JSON.stringify(found));
