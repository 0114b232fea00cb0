import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { ExecuteJob, TryReport } from '../../src/checks/execute.ts';
import { programPath, stopChild } from './programs.ts';

export interface ProbeQuestion {
  id: number;
  job: ExecuteJob;
}
export type ProbeAnswer = { id: number; report: TryReport } | { id: number; thrown: string };

/** Runs checks in a child process. */
export interface Probe extends AsyncDisposable {
  /** @throws Error when the runner threw: never for anything that a target does */
  run(
    checkType: string,
    spec: object,
    options?: { timeoutMs?: number; proxyUrl?: string | null },
  ): Promise<TryReport>;
  stop(): Promise<void>;
}

/**
 * @param options.trusted PEM file of certificates to trust besides the public ones
 * @param options.nameServers `127.0.0.1:5353`; those of resolv.conf without
 * @param options.within a command that runs its arguments elsewhere: `['ip', 'netns', 'exec', 'x']`
 */
export async function startProbe(options: {
  trusted?: string;
  nameServers?: readonly string[];
  within?: readonly string[];
}): Promise<Probe> {
  const entry = new URL('probe-child.ts', import.meta.url).pathname;
  const [program, ...args] = [...(options.within ?? []), process.execPath, entry];
  const path = program === process.execPath ? program : programPath(program!);
  const child = spawn(path, args, {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    env: {
      ...(options.trusted !== undefined && { NODE_EXTRA_CA_CERTS: options.trusted }),
      ...(options.nameServers && { PROBE_NAME_SERVERS: options.nameServers.join(',') }),
    },
  });
  const waiting = new Map<number, PromiseWithResolvers<TryReport>>();
  await once(child, 'message');
  child.on('message', (answer: ProbeAnswer) => {
    const waiter = waiting.get(answer.id);
    waiting.delete(answer.id);
    if ('report' in answer) waiter?.resolve(answer.report);
    else waiter?.reject(new Error(answer.thrown));
  });
  child.on('exit', () => {
    for (const waiter of waiting.values()) waiter.reject(new Error('the probe has ended'));
  });
  let lastId = 0;
  const stop = (): Promise<void> => stopChild(child);
  return {
    run(checkType, spec, { timeoutMs = 10_000, proxyUrl = null } = {}) {
      const id = ++lastId;
      const waiter = Promise.withResolvers<TryReport>();
      waiting.set(id, waiter);
      child.send({ id, job: { checkType, spec, timeoutMs, proxyUrl } } satisfies ProbeQuestion);
      return waiter.promise;
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}
