import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Marker } from './marker.ts';

/*
 * Looks at the processes of this machine through /proc. Synchronous on purpose: when a job has used up
 * every process that may be created, no thread of a pool could be had either.
 */

const HARD_RTTIME = /^Max realtime timeout\s+\S+\s+(\d+)/m;

/** The hard limit that carries the mark; undefined when it is unlimited or the process is gone. */
export function markerOfProcess(pid: number): Marker | undefined {
  const value = HARD_RTTIME.exec(procText(pid, 'limits') ?? '')?.[1];
  return value === undefined ? undefined : BigInt(value);
}

export function allPids(): number[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0);
}

/** All of them, those of other containers included; 0 where it is not told. */
export function threadsOfMachine(): number {
  return Number(/\/(\d+) /.exec(textOf('/proc/loadavg') ?? '')?.[1] ?? 0);
}

export interface ProcessStatus {
  /** Ended, and its parent has not asked about it yet. */
  zombie: boolean;
  parent: number;
  /** Memory that is its own or shared with processes of the same job. */
  anonymousBytes: number;
  /** Mapped files: programs and libraries, which all processes of a job have in common. */
  fileBytes: number;
}

export function statusOf(pid: number): ProcessStatus | undefined {
  const text = procText(pid, 'status');
  if (text === undefined) return undefined;
  const field = (name: string): string => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(text)?.[1] ?? '';
  return {
    zombie: /[ZX]/.test(field('State')),
    parent: Number(field('PPid')),
    anonymousBytes: (Number(field('RssAnon')) + Number(field('RssShmem'))) * 1024,
    fileBytes: Number(field('RssFile')) * 1024,
  };
}

/** Resident memory with each shared page counted by its part; slow. Undefined where it may not be read. */
export function proportionalBytes(pid: number): number | undefined {
  const kilobytes = /^Pss:\s+(\d+)/m.exec(procText(pid, 'smaps_rollup') ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

/** Of the first thread of a process since it started. */
export interface Scheduling {
  /** How long it had a processor, ms. */
  ranMs: number;
  /** How long it could have used one and had none, ms. */
  waitedMs: number;
}

/** Zeros when the process is gone, or where the kernel does not count (Linux, CONFIG_SCHED_INFO). */
export function schedulingOf(pid: number): Scheduling {
  const [ranNs = 0, waitedNs = 0] = (procText(pid, 'schedstat') ?? '').split(' ').map(Number);
  return { ranMs: ranNs / 1e6, waitedMs: waitedNs / 1e6 };
}

/** What one process asked of the processors. */
export interface Load extends Scheduling {
  /** Of all its threads since it started, ms. */
  cpuMs: number;
}

/** The kernel counts in hundredths of a second, whatever it counts inside. */
const TICK_MS = 10;

export function loadOf(pid: number): Load {
  const stat = procText(pid, 'stat') ?? '';
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { ...schedulingOf(pid), cpuMs: (Number(fields[11] ?? 0) + Number(fields[12] ?? 0)) * TICK_MS };
}

/**
 * Where sessions share the processors evenly among them, a priority counts within one only, and a session
 * that a job makes begins with the usual one: browsers and commands have sessions of their own.
 */
export function standBackInSession(pid: number, nice: number): void {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, String(nice));
  } catch {
    // Gone, or no such groups: a wish, no wall.
  }
}

const procText = (pid: number, file: string): string | undefined => textOf(`/proc/${pid}/${file}`);

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return undefined;
  }
}
