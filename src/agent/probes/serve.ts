import { Socket } from 'node:net';
import type { TryReport } from '../../checks/execute.ts';
import type { Job } from '../../contract/index.ts';
import { messageOf } from '../../kit/errors.ts';
import { BEAT_MS, openChannel, type FromProbe, type ProbeSetup, type ToProbe } from './channel.ts';

export type Execute = (job: Job, signal: AbortSignal) => Promise<TryReport>;

/**
 * The life of a probe process: takes tries from the channel, runs many at once, reports each, beats.
 * It ends when the channel does, so a probe never outlives its agent.
 */
export function serveProbe(prepare: (setup: ProbeSetup) => Execute): void {
  const tries = new Map<number, AbortController>();
  let execute: Execute | undefined;
  const stream = new Socket({ fd: 3, readable: true, writable: true });
  stream.on('error', () => process.exit(1));
  stream.on('close', () => process.exit(0));

  const begin = async (n: number, job: Job): Promise<void> => {
    const stop = new AbortController();
    tries.set(n, stop);
    try {
      if (execute === undefined) throw new Error('a try came before the set-up');
      send({ t: 'done', n, report: await execute(job, stop.signal) });
    } catch (error) {
      send({ t: 'fault', n, code: 'PROBE_FAULT', message: messageOf(error) });
    } finally {
      tries.delete(n);
    }
  };
  const receive = (message: ToProbe): void => {
    switch (message.t) {
      case 'setup':
        execute = prepare(message.setup);
        send({ t: 'ready' });
        break;
      case 'run':
        void begin(message.n, message.job);
        break;
      case 'cancel':
        tries.get(message.n)?.abort(new Error('cancelled'));
        break;
    }
  };
  const send = openChannel<FromProbe, ToProbe>(stream, receive, () => process.exit(1));
  setInterval(() => send({ t: 'beat', rssBytes: process.memoryUsage.rss() }), BEAT_MS);
}
