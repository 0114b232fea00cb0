import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';

/** Tries what a probe must not be able to do and reports, over its channel, what happened. */
const outcome = (attempt: () => unknown): string => {
  try {
    attempt();
    return 'possible';
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
};

const channel = new Socket({ fd: 3, readable: true, writable: true });
channel.on('close', () => process.exit(0));
channel.on('data', (secret: Buffer) => {
  const found = {
    environment: process.env,
    readSecret: outcome(() => readFileSync(secret.toString(), 'utf8')),
    readPasswd: outcome(() => readFileSync('/etc/passwd', 'utf8')),
    readOwnEnvironment: outcome(() => readFileSync('/proc/self/environ')),
    readParentEnvironment: outcome(() => readFileSync(`/proc/${process.ppid}/environ`)),
    readResolvConf: outcome(() => readFileSync('/etc/resolv.conf')),
    write: outcome(() => writeFileSync('/tmp/vedette-wall-test', 'x')),
    spawn: outcome(() => spawn('true')),
    proto: '__proto__' in {},
    ppid: process.ppid,
    cwd: outcome(() => process.cwd()),
  };
  channel.write(JSON.stringify(found));
});
