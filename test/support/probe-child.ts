/**
 * Runs checks for `startProbe` in a process of its own, so that its certificates, its name servers and
 * its network namespace can be chosen. One message per job in, one report out.
 */
import { createEnvironment, execute } from '../../src/checks/execute.ts';
import { messageOf } from '../../src/kit/errors.ts';
import type { ProbeAnswer, ProbeQuestion } from './probe.ts';

const servers = process.env['PROBE_NAME_SERVERS'];
const environment = createEnvironment({
  useOsResolver: false,
  ...(servers && { servers: servers.split(',') }),
});

async function answer({ id, job }: ProbeQuestion): Promise<ProbeAnswer> {
  try {
    return { id, report: await execute(job, environment, new AbortController().signal) };
  } catch (error) {
    return { id, thrown: messageOf(error) };
  }
}

process.on('message', (question: ProbeQuestion) => {
  void answer(question).then((reply) => process.send?.(reply));
});
process.on('disconnect', () => process.exit(0));
process.send?.('ready');
