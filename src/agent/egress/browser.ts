import type { Socket } from 'node:net';
import { codeOf } from '../../kit/errors.ts';
import type { Refusal } from './channel.ts';
import type { Way } from './dialer.ts';
import { ProxyFault } from './proxy-way.ts';
import { BLOCKED, type Findings } from './findings.ts';
import {
  CONNECTED,
  failureReply,
  greetingLength,
  NO_AUTHENTICATION,
  readRequest,
  SocksError,
  type SocksTarget,
} from './socks.ts';
import { splice } from './splice.ts';

export interface Ways {
  way: () => Way;
  findings: Findings;
  /** Aborts when the connection has ended. */
  gone: AbortSignal;
}

interface Parts extends Ways {
  /** The browser has said where it wants to go. */
  onRequest(): void;
}

/**
 * One connection of a browser. SOCKS, since a page that cannot be reached is an error of its navigation
 * then; a proxy for HTTP would have to answer in the place of the target.
 */
export function serveBrowser(socket: Socket, parts: Parts): void {
  let bytes: Buffer = Buffer.alloc(0);
  let isGreeted = false;
  const read = (): SocksTarget | null => {
    if (!isGreeted) {
      const length = greetingLength(bytes);
      if (length === null) return null;
      isGreeted = true;
      bytes = bytes.subarray(length);
      socket.write(NO_AUTHENTICATION);
    }
    return readRequest(bytes);
  };
  const onData = (more: Buffer): void => {
    bytes = bytes.length === 0 ? more : Buffer.concat([bytes, more]);
    try {
      const target = read();
      if (target === null) return;
      socket.off('data', onData).on('data', onEarly);
      parts.onRequest();
      void reach(target, parts, 'browser').then(join, refuse);
    } catch (error) {
      refuse(error);
    }
  };
  // It was not told yet that the way is open.
  const onEarly = (): void => void socket.destroy();
  const onEnd = (): void => void socket.destroy();
  const join = (target: Socket): void => {
    socket.off('data', onEarly).off('end', onEnd).pause();
    socket.write(CONNECTED);
    splice(socket, target);
  };
  const refuse = (error: unknown): void => {
    const answer = error instanceof SocksError ? error.answer : failureReply(codeOf(error) ?? '');
    if (answer === null) socket.destroy();
    else socket.end(answer, () => socket.destroy());
  };
  socket.on('end', onEnd).on('data', onData).resume();
}

/** The policy closed the way to every address. */
class Refused extends Error {
  readonly code = 'ERR_TARGET_BLOCKED';
}

/** @throws Error with a code, after it was filed */
export async function reach({ host, port }: SocksTarget, parts: Ways, by: Refusal['by']): Promise<Socket> {
  const { findings, gone } = parts;
  const way = parts.way();
  try {
    const addresses = await way.resolve(host, 0, gone);
    const judged = addresses.map((each) => ({ ...each, why: way.judge(host, each.address, port) }));
    const open = judged.filter(({ why }) => why === null);
    for (const { why } of judged) if (why !== null) findings.refused(BLOCKED, why, by);
    if (open.length === 0) throw new Refused(judged[0]?.why ?? '');
    return await way.connect(host, open, port, gone);
  } catch (error) {
    const code = codeOf(error) ?? 'ECONNREFUSED';
    const isOurs = error instanceof Refused || error instanceof ProxyFault;
    if (!gone.aborted) {
      if (error instanceof ProxyFault) findings.refused(code, error.message, by);
      findings.failed({ host, port, code, sentence: isOurs ? error.message : null });
    }
    throw error;
  }
}
