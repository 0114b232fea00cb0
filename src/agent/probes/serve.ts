import { Socket } from 'node:net';
import { AgentFault } from '../../checks/check-type.ts';
import type { TryReport } from '../../checks/execute.ts';
import type { PhaseAnswer, ScriptHooks } from '../../checks/script-hooks.ts';
import type { Job } from '../../contract/index.ts';
import { messageOf } from '../../kit/errors.ts';
import { BEAT_MS, openChannel, type FromProbe, type ProbeSetup, type ToProbe } from './channel.ts';

export type Execute = (job: Job, signal: AbortSignal, scripts: ScriptHooks | null) => Promise<TryReport>;

/**
 * The life of a probe process: takes tries from the channel, runs many at once, reports each, beats.
 * It ends when the channel does, so a probe never outlives its agent.
 */
export function serveProbe(prepare: (setup: ProbeSetup) => Execute): void {
  const tries = new Map<number, AbortController>();
  const asked = new Map<number, PromiseWithResolvers<PhaseAnswer>>();
  let execute: Execute | undefined;
  const stream = new Socket({ fd: 3, readable: true, writable: true });
  stream.on('error', () => process.exit(1));
  stream.on('close', () => process.exit(0));

  const scriptsOf = (n: number, signal: AbortSignal): ScriptHooks => ({
    run: async (question) => {
      signal.throwIfAborted();
      const answered = Promise.withResolvers<PhaseAnswer>();
      const giveUp = (): void => answered.reject(signal.reason as Error);
      signal.addEventListener('abort', giveUp, { once: true });
      asked.set(n, answered);
      send({ t: 'ask', n, question });
      try {
        return await answered.promise;
      } finally {
        asked.delete(n);
        signal.removeEventListener('abort', giveUp);
      }
    },
  });
  const begin = async (n: number, job: Job, asks: boolean): Promise<void> => {
    const stop = new AbortController();
    tries.set(n, stop);
    try {
      if (execute === undefined) throw new Error('a try came before the set-up');
      const scripts = asks ? scriptsOf(n, stop.signal) : null;
      send({ t: 'done', n, report: await execute(job, stop.signal, scripts) });
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
        void begin(message.n, message.job, message.asks);
        break;
      case 'cancel':
        tries.get(message.n)?.abort(new Error('cancelled'));
        break;
      case 'answer':
        settle(asked.get(message.n), message.answer);
        break;
    }
  };
  const send = openChannel<FromProbe, ToProbe>(stream, receive, () => process.exit(1));
  setInterval(() => send({ t: 'beat', rssBytes: process.memoryUsage.rss() }), BEAT_MS);
}

function settle(
  asked: PromiseWithResolvers<PhaseAnswer> | undefined,
  answer: Extract<ToProbe, { t: 'answer' }>['answer'],
): void {
  if ('fault' in answer) asked?.reject(new AgentFault(answer.fault.code, answer.fault.message));
  else asked?.resolve(answer);
}
