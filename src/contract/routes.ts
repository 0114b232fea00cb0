import { z } from 'zod';
import { FromAgent, FromService } from './messages.ts';
import { ResultBatch, ResultReceipts } from './results.ts';

/** Protocols from `min` to `max`. */
export interface ProtocolRange {
  readonly min: number;
  readonly max: number;
}
/**
 * What this build speaks, both ends: the newest and, once there are two, the one before. So agents may
 * be a protocol behind the service while it is upgraded, or ahead of it. Additions need no new number:
 * fields and messages that an end does not know are ignored by it. A number is for what is not that.
 */
export const PROTOCOL: ProtocolRange = { min: 1, max: 1 };
/** The newest that both ends speak; undefined when there is none. */
export function commonProtocol(a: ProtocolRange, b: ProtocolRange): number | undefined {
  const newest = Math.min(a.max, b.max);
  return newest < Math.max(a.min, b.min) ? undefined : newest;
}
export const SUBPROTOCOL = 'agent.v1.json';
/** Largest control frame either side accepts, bytes. */
export const MAX_FRAME_BYTES = 1024 * 1024;
/** Largest result batch body after decompression, bytes. */
export const MAX_BATCH_BYTES = 8 * 1024 * 1024;
/** Longest time the service holds a poll, ms: below the 30 s after which common proxies cut. */
export const POLL_HOLD_MS = 25_000;

/** Timing of leases. The service sends its values in `welcome`; tests shorten them. */
export const DEFAULT_TIMING = {
  renewEveryMs: 20_000,
  leaseMs: 300_000,
  acceptMs: 10_000,
  /** A run waits this long in the queue, counted from the moment it became due. */
  queueExpiryMs: 360_000,
  /** Without a renewal for this long an agent gets no new offers. */
  suspectMs: 60_000,
  /** After the service was away, agents may come back for this long before a lease is ended. */
  settleMs: 60_000,
  /** Leases that may end without a result before a run is given up. */
  maxDeliveries: 3,
} as const;
export type Timing = { [K in keyof typeof DEFAULT_TIMING]: number };

/** An agent ends a run itself at this share of the lease: before anyone else may start it. */
export const SELF_FENCE_SHARE = 0.95;

/** The socket carries one message per frame. Authorization: Bearer <location key>. */
export const CONNECT_PATH = '/agent/v1/connect';

/** Long poll: opens a session. The body is a hello, the reply its welcome. */
export const OpenSession = {
  method: 'POST',
  path: '/agent/v1/sessions',
  body: z.object({ messages: z.array(FromAgent).min(1) }),
} as const;
/** Long poll: delivers messages, waits up to POLL_HOLD_MS for answers. */
export const Poll = {
  method: 'POST',
  path: '/agent/v1/sessions/:sid/poll',
  body: z.object({
    messages: z.array(FromAgent),
    /** False: answer at once, so that a waiting poll is never needed to send. */
    wait: z.boolean(),
  }),
} as const;
export const PollReply = z.object({
  messages: z.array(FromService),
  close: z.object({ code: z.int(), reason: z.string() }).optional(),
});
export type PollReply = z.infer<typeof PollReply>;

/** Result batches, always over HTTP; content-encoding zstd or gzip allowed. */
export const PostResults = {
  method: 'POST',
  path: '/agent/v1/results',
  body: ResultBatch,
  reply: ResultReceipts,
} as const;
