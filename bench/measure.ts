import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';

const TICK_MS = 1000 / Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/** User and system time of a process and of its ended children so far, ms. */
export function cpuMsOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]) * TICK_MS, 0);
}

/** Resident memory of a process, MB. */
export function rssMbOf(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(match?.[1] ?? 0) / 1024;
}

/** Polls until `ready` answers true; bounded at 30 s. */
export async function until(ready: () => Promise<boolean>, everyMs = 50): Promise<void> {
  const giveUpAt = performance.now() + 30_000;
  while (performance.now() < giveUpAt) {
    if (await ready().catch(() => false)) return;
    await delay(everyMs);
  }
  throw new Error('not ready within 30 s');
}

/** Runs `work` from `concurrency` loops for `ms`; at most `max` calls. */
export async function closedLoop(
  concurrency: number,
  ms: number,
  max: number,
  work: () => Promise<void>,
): Promise<{ count: number; seconds: number }> {
  const begun = performance.now();
  let count = 0;
  const loop = async (): Promise<void> => {
    while (performance.now() - begun < ms && count < max) {
      count++;
      await work();
    }
  };
  await Promise.all(Array.from({ length: concurrency }, loop));
  return { count, seconds: (performance.now() - begun) / 1000 };
}

export function quantile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)] ?? NaN;
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);
