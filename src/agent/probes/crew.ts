import { backoffMs, monoMs, sleep } from '../../kit/clock.ts';
import type { Log } from '../../kit/log.ts';
import type { ProbeSetup } from './channel.ts';
import { Probe } from './probe.ts';
import { PROBE_ENTRY, probeProgram } from './program.ts';

export interface CrewOptions {
  /** Probe processes for everything but ping; one more starts with the first ping. */
  size: number;
  heapMb: number;
  setup: ProbeSetup;
  extraCaCerts: string | undefined;
  log: Log;
  /** Program of the probes; a test passes its own. */
  entry?: URL;
  /** Tries after which a process is replaced. */
  recycleTries?: number;
  /** Seconds of silence after which a process hangs. */
  silentBeats?: number;
}

export interface CrewEvents {
  onReady(): void;
  /** `replaced` when it was meant to end. */
  onEnded(probe: Probe, cause: string): void;
}

export type Kind = 'plain' | 'ping';

/** A process that served this many tries is replaced: whatever leaks stays small. */
const RECYCLE_TRIES = 100_000;
/** Resident memory above the heap's bound that buffers and code may take before a process is replaced, MB. */
const RECYCLE_EXTRA_MB = 160;
/** A replaced process gets this long to finish what it has. */
const LEAVE_MS = 300_000;
/** A process that ended younger than this did not work: the next waits. */
const SHORT_LIFE_MS = 10_000;
const LOOK_MS = 1000;

/** The probe processes: started, watched, replaced, ended. */
export class Crew {
  readonly #options: CrewOptions;
  readonly #events: CrewEvents;
  readonly #probes: Record<Kind, Set<Probe>> = { plain: new Set(), ping: new Set() };
  /** To be replaced as soon as another process is ready. */
  readonly #outdated = new WeakSet<Probe>();
  readonly #firstReady = Promise.withResolvers<void>();
  readonly #pingWanted = Promise.withResolvers<void>();
  readonly #stop = new AbortController();
  #kept: Promise<void> | undefined;
  /** Why the last process could not start; undefined while they do. */
  startError: string | undefined;

  constructor(options: CrewOptions, events: CrewEvents) {
    this.#options = options;
    this.#events = events;
  }

  of(kind: Kind): Iterable<Probe> {
    return this.#probes[kind];
  }
  all(): { kind: Kind; probe: Probe }[] {
    return (['plain', 'ping'] as const).flatMap((kind) =>
      Array.from(this.#probes[kind], (probe) => ({ kind, probe })),
    );
  }

  /** Starts the processes; more calls change nothing. */
  start(): void {
    this.#kept ??= this.#keep(this.#stop.signal);
  }

  /** Ends them. Resolves when they are gone. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#kept;
  }

  wantPing(): void {
    this.#pingWanted.resolve();
  }

  /** Replaces a process without a gap. */
  outdate(probe: Probe): void {
    this.#outdated.add(probe);
  }

  async #keep(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    const once = (wanted: Promise<void>, kind: Kind): Promise<void> =>
      Promise.race([wanted, aborted]).then(() => this.#keepSlot(kind, signal));
    const first = this.#keepSlot('plain', signal);
    // The others wait for the first: it is ready sooner when it has the processor to itself.
    const others = Array.from({ length: this.#options.size - 1 }, () =>
      once(this.#firstReady.promise, 'plain'),
    );
    await Promise.all([first, ...others, once(this.#pingWanted.promise, 'ping')]);
    await Promise.all(this.all().map(({ probe }) => probe.ended));
  }

  /** One place in the crew: its process, and the next when that ends or is due to leave. */
  async #keepSlot(kind: Kind, signal: AbortSignal): Promise<void> {
    let failures = 0;
    let current: Probe | undefined;
    while (!signal.aborted) {
      const bornMs = monoMs();
      const next = this.#launch(kind);
      if (await next.started) {
        if (current !== undefined) void this.#retire(current);
        current = next;
        this.startError = undefined;
        this.#firstReady.resolve();
        this.#events.onReady();
        await this.#untilDue(next, signal);
      } else if (!signal.aborted) {
        this.startError = next.startErrors || `it ended before it was ready (${await next.ended})`;
        this.#options.log.error({ kind, detail: this.startError }, 'a probe process did not start');
      }
      failures = monoMs() - bornMs < SHORT_LIFE_MS ? failures + 1 : 0;
      if (failures > 1) await sleep(250 + backoffMs(failures), signal).catch(() => {});
    }
  }

  #launch(kind: Kind): Probe {
    const { setup, heapMb, extraCaCerts, entry = PROBE_ENTRY, log, silentBeats } = this.#options;
    const program = probeProgram({ entry, ping: kind === 'ping', heapMb, extraCaCerts });
    const probe = new Probe(program, setup, silentBeats);
    this.#probes[kind].add(probe);
    const kill = (): void => probe.kill();
    const stop = this.#stop.signal;
    stop.addEventListener('abort', kill, { once: true });
    void probe.ended.then((cause) => {
      stop.removeEventListener('abort', kill);
      this.#probes[kind].delete(probe);
      log.debug({ pid: probe.pid, kind, cause, tries: probe.taken }, 'probe process ended');
      this.#events.onEnded(probe, stop.aborted || probe.leaving ? 'replaced' : cause);
    });
    return probe;
  }

  /** Waits until the probe has ended or should be replaced. */
  async #untilDue(probe: Probe, signal: AbortSignal): Promise<void> {
    const { heapMb, recycleTries = RECYCLE_TRIES } = this.#options;
    while (probe.state === 'ready' && !signal.aborted) {
      await Promise.race([probe.ended, sleep(LOOK_MS, signal).catch(() => {})]);
      const grown = probe.rssBytes > (heapMb + RECYCLE_EXTRA_MB) * 1024 * 1024;
      if (grown || probe.taken >= recycleTries || this.#outdated.has(probe)) return;
    }
  }

  async #retire(probe: Probe): Promise<void> {
    if (probe.state === 'ended') return;
    probe.leave();
    const deadlineMs = monoMs() + LEAVE_MS;
    while (probe.load > 0 && monoMs() < deadlineMs && !this.#stop.signal.aborted) {
      await Promise.race([probe.ended, sleep(LOOK_MS / 4)]);
    }
    probe.kill();
  }
}
