import { imprison } from './runner.ts';

/** Plays an agent that is killed in the middle of a job: prints its child and waits. */
const prisoner = imprison({ profile: 'browser' });
await prisoner.run(`
  const { spawnSync } = load('node:child_process');
  const script = 'for i in 1 2 3; do (setsid env -i sleep 100 &) ; done';
  spawnSync('/bin/sh', ['-c', script], { stdio: 'ignore' });
  return 1;`);
process.stdout.write(String(prisoner.child.pid));
// Nobody may be left to kill it.
setTimeout(() => process.exit(), 30_000);
