import { isIP, type Socket } from 'node:net';
import { z } from 'zod';
import { LineReader } from '../lines.ts';
import type { Arrivals } from './arrivals.ts';
import { connectErrno, NoAddress, type Way } from './dialer.ts';
import { BLOCKED, type Findings } from './findings.ts';
import type { Asked, Told } from './gate-protocol.ts';
import { ProxyFault } from './proxy-way.ts';
import { splice } from './splice.ts';

/** Under way on one connection: whoever asks more waits. */
const MAX_QUESTIONS = 256;
/** Answers that nobody reads. */
const MAX_UNREAD_BYTES = 1024 * 1024;
const GREETING = '{}';
const MAX_LINE_CHARS = 16 * 1024;

const host = z.string().min(1).max(1024);
const asked = z.union([
  z.strictObject({ n: z.int(), resolve: host, family: z.literal([0, 4, 6]) }),
  z.strictObject({
    n: z.int(),
    dial: z.int().min(1).max(65_535),
    host: host.nullable(),
    address: host.refine((text) => isIP(text) !== 0),
    port: z.int().min(0).max(65_535),
  }),
]) satisfies z.ZodType<Asked>;

type Dial = Extract<Asked, { dial: number }>;
type Answer = Told extends infer Each ? (Each extends { n: number } ? Omit<Each, 'n'> : never) : never;

interface Parts {
  way: () => Way;
  findings: Findings;
  arrivals: Arrivals;
  /** Aborts when the connection has ended. */
  gone: AbortSignal;
}

/** Answers the questions of a process until it ends the connection. What is no question ends it, too. */
export function serveQuestions(socket: Socket, parts: Parts): void {
  const lines = new LineReader(MAX_LINE_CHARS);
  let underWay = 0;
  const tell = (told: Told): void => {
    if (socket.writable) socket.write(`${JSON.stringify(told)}\n`);
    if (socket.writableLength > MAX_UNREAD_BYTES) socket.destroy();
  };
  const answer = async (question: Asked): Promise<void> => {
    if (++underWay >= MAX_QUESTIONS) socket.pause();
    const told = 'dial' in question ? await dial(question, parts, tell) : await resolve(question, parts);
    if (told !== null) tell({ n: question.n, ...told } as Told);
    if (--underWay < MAX_QUESTIONS) socket.resume();
  };
  const stopTelling = parts.findings.onFailed((failed) => tell({ failed }));
  parts.gone.addEventListener('abort', stopTelling, { once: true });
  socket.on('end', () => socket.destroy());
  socket.on('data', (bytes: Buffer) => {
    try {
      for (const line of lines.push(bytes)) {
        if (line !== GREETING) void answer(asked.parse(JSON.parse(line)));
      }
    } catch {
      socket.destroy();
    }
  });
  socket.resume();
}

async function resolve(
  { resolve: name, family }: Extract<Asked, { resolve: string }>,
  { way, findings, gone }: Parts,
): Promise<Answer> {
  try {
    const addresses = await way().resolve(name, family, gone);
    findings.found(name, addresses);
    return { addresses };
  } catch (error) {
    return { nameError: error instanceof NoAddress ? error.code : 'EAI_AGAIN' };
  }
}

/** @returns null when the answer has been told before the first byte passed */
async function dial(question: Dial, parts: Parts, tell: (told: Told) => void): Promise<Answer | null> {
  const { findings, arrivals } = parts;
  const way = parts.way();
  const { n, dial: from, address, port } = question;
  const arrival = await arrivals.take(from);
  if (arrival === null) return { errno: connectErrno({ code: 'ECONNABORTED' }) };
  const name = nameOf(question, findings);
  const refusal = judge(question, name, way, findings);
  if (refusal !== null) {
    arrival.socket.destroy();
    findings.refused(BLOCKED, refusal.sentence, 'script');
    return refusal.isLast
      ? { blocked: refusal.sentence, code: 'ERR_TARGET_BLOCKED' }
      : { errno: connectErrno({ code: 'EACCES' }) };
  }
  try {
    const family = isIP(address) === 6 ? 6 : 4;
    const target = await way.connect(name, [{ address, family }], port, arrival.gone);
    tell({ n, connected: true });
    splice(arrival.hand(), target);
    return null;
  } catch (error) {
    arrival.socket.destroy();
    if (!(error instanceof ProxyFault)) return { errno: connectErrno(error) };
    if (!arrival.gone.aborted) findings.refused(error.code, error.message, 'script');
    return { blocked: error.message, code: error.code };
  }
}

/** A name counts for the addresses that were found for it here; whoever says otherwise gives a literal. */
function nameOf({ host: claimed, address }: Dial, findings: Findings): string {
  const isFound = claimed !== null && findings.addressesOf(claimed)?.ever.has(address) === true;
  return isFound ? claimed : address;
}

function judge(
  { address, port }: Dial,
  name: string,
  way: Way,
  findings: Findings,
): { sentence: string; isLast: boolean } | null {
  const sentence = way.judge(name, address, port);
  if (sentence === null) return null;
  // Another address of the name may be open: the process tries it as if this one did not answer.
  const others = name === address ? [] : (findings.addressesOf(name)?.latest ?? []);
  return { sentence, isLast: others.every((each) => way.judge(name, each, port) !== null) };
}
