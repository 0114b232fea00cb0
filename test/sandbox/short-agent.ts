import { imprison } from './runner.ts';

/** Plays an agent that is killed in the middle of a job: prints its child and waits. */
const prisoner = imprison({ profile: 'browser' });
await prisoner.run(`
  const { spawnSync } = load('node:child_process');
  spawnSync('/bin/sh', ['-c', 'for i in 1 2 3; do (setsid env -i sleep 1000 &) ; done']);
  return 1;`);
process.stdout.write(String(prisoner.child.pid));
setInterval(() => {}, 1000);
