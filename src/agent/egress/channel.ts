import type { Duplex } from 'node:stream';
import { LineReader } from '../lines.ts';

export interface EgressSetup {
  /** Resolve names through the operating system. */
  useOsResolver: boolean;
  /** Asked instead of those of resolv.conf; for tests. */
  servers?: readonly string[];
  policy: { blocked: string; allowed: string };
  /** Targets that the proxy of a location is not for, as in NO_PROXY. */
  noProxy?: string;
}

/** What this agent's policy, or the proxy of the location, closed the way to. */
export interface Refusal {
  /** TARGET_BLOCKED, or what is wrong with the proxy. */
  code: string;
  sentence: string;
  /** Scripts ask for what they need; a browser asks for whatever is on a page. */
  by: 'script' | 'browser';
}

/** From the agent to its egress process. `setup` comes first; `n` numbers the gates. */
export type ToEgress =
  | { t: 'setup'; setup: EgressSetup }
  /** Port 0: any that is free. `allowed`: beyond the policy, for this gate alone. */
  | { t: 'open'; n: number; port: number; allowed: string }
  | { t: 'close'; n: number }
  /** From now on the gate leads through this proxy, but to `direct`; null: directly. */
  | { t: 'lead'; n: number; proxyUrl: string | null; direct: string }
  /** From now on these authorities count besides those of Node and of the machine, as PEM. */
  | { t: 'trust'; authorities: readonly string[] }
  /** Ports of this machine that belong to the agent itself. */
  | { t: 'own-ports'; ports: readonly number[] };

export type FromEgress =
  | { t: 'ready' }
  | { t: 'opened'; n: number; port: number }
  | { t: 'not-opened'; n: number; why: string }
  | { t: 'led'; n: number }
  /** The way to something is closed. Each once per gate. */
  | { t: 'refused'; n: number; refusal: Refusal };

const MAX_LINE_CHARS = 1024 * 1024;

/** Messages as lines of JSON. What is no message ends the stream: both ends are ours. */
export function openChannel<Out extends object, In extends object>(
  stream: Duplex,
  receive: (message: In) => void,
): (message: Out) => void {
  const lines = new LineReader(MAX_LINE_CHARS);
  stream.on('data', (bytes: Buffer) => {
    try {
      for (const line of lines.push(bytes)) receive(JSON.parse(line) as In);
    } catch (error) {
      stream.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  });
  return (message) => {
    if (stream.writable) stream.write(`${JSON.stringify(message)}\n`);
  };
}
