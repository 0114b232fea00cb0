import { z } from 'zod';
import { Job, RunRef } from './job.ts';

/**
 * Control messages between agent and service, the same objects on the WebSocket and in the long poll.
 * Strict out, tolerant in: unknown fields are dropped, unknown types ignored and counted.
 */
const message = <T extends string, D extends z.ZodObject>(t: T, d: D) =>
  z.object({
    v: z.literal(1),
    t: z.literal(t),
    id: z.string().max(100),
    re: z.string().max(100).optional(),
    ep: z.int().optional(),
    d,
  });

const Clock = z.object({ t0: z.number() });

/** One printable line: it is stored and shown. */
const Line = z
  .string()
  .max(100)
  .regex(/^[^\p{C}]*$/u, 'control characters are not allowed');
/** Keeps the largest list of runs, an inventory, well below MAX_FRAME_BYTES. */
export const MAX_RUNS = 5000;
const MAX_SLOTS = 10_000;

/** Free places for runs that get a process tree of their own, by what they need; see JobClass. */
const FreeByClass = z
  .object({
    script: z.int().min(0).max(MAX_SLOTS),
    browser: z.int().min(0).max(MAX_SLOTS),
    /** Absent from agents that do not know suites. */
    suite: z.int().min(0).max(MAX_SLOTS).optional(),
  })
  .optional();

/** A run that the agent holds. `spooled`: finished, its result not yet acknowledged. */
export const HeldRun = RunRef.extend({
  phase: z.enum(['running', 'spooled']),
  startedAgoMs: z.number().min(0),
});
export type HeldRun = z.infer<typeof HeldRun>;

export const Hello = message(
  'hello',
  z.object({
    agentId: z.uuid(),
    /** Random per process. Two live instances of one agentId: the older session is closed (4409). */
    instanceId: z.uuid(),
    agentVersion: Line,
    protocol: z.object({ min: z.int(), max: z.int() }),
    features: z.array(Line).max(100),
    capabilities: z.object({
      checkTypes: z.array(Line).max(100),
      os: Line,
      arch: Line,
      /** Runtimes that user code can run in here: `2026.04`. */
      runtimes: z.array(Line).max(100).optional(),
      /** The walls around user code: `full`, `partial` or `none`, and what is missing. */
      sandbox: z.object({ state: Line, missing: z.array(Line).max(100) }).optional(),
    }),
    slots: z.object({ total: z.int().min(1).max(MAX_SLOTS) }),
    /** Everything the agent holds; when that is more than fits, without the longest spooled. */
    running: z.array(HeldRun).max(MAX_RUNS),
    clock: Clock,
  }),
);
/** `free`: places for light runs. */
export const Ready = message(
  'ready',
  z.object({ free: z.int().min(0).max(MAX_SLOTS), freeByClass: FreeByClass }),
);
export const Accept = message('accept', z.object({ runs: z.array(RunRef).max(MAX_RUNS) }));
export const DeclineReason = z.enum(['draining', 'no_capacity', 'unsupported', 'spool_full', 'unreadable']);
export const Decline = message(
  'decline',
  z.object({ runs: z.array(RunRef.extend({ reason: DeclineReason })).max(MAX_RUNS) }),
);
export const Renew = message(
  'renew',
  z.object({
    running: z.array(HeldRun).max(MAX_RUNS),
    free: z.int().min(0).max(MAX_SLOTS),
    freeByClass: FreeByClass,
    clock: Clock,
  }),
);
export const Release = message(
  'release',
  z.object({
    runs: z.array(RunRef).max(MAX_RUNS),
    reason: z.enum(['shutdown', 'crashed_previously', 'interrupted', 'fenced']),
  }),
);
export const Drain = message('drain', z.object({ deadlineMs: z.number().min(0) }));
export const Bye = message('bye', z.object({ reason: Line }));

export const FromAgent = z.discriminatedUnion('t', [
  Hello,
  Ready,
  Accept,
  Decline,
  Renew,
  Release,
  Drain,
  Bye,
]);
export type FromAgent = z.infer<typeof FromAgent>;

export const Welcome = message(
  'welcome',
  z.object({
    sid: z.uuid(),
    epoch: z.int(),
    protocol: z.int(),
    features: z.array(z.string()),
    /** Slug of the location that the key belongs to. */
    location: z.string(),
    clock: z.object({ t0: z.number(), t1: z.number(), t2: z.number() }),
    renewEveryMs: z.int().positive(),
    leaseMs: z.int().positive(),
    acceptMs: z.int().positive(),
    resultBatch: z.object({ maxItems: z.int(), maxBytes: z.int(), flushMs: z.int() }),
    minAgentVersion: z.string().nullable(),
    /** Runs of the hello that this agent no longer owns: stop them. */
    drop: z.array(RunRef.extend({ why: z.string() })),
  }),
);
/** Each job's lease starts when it is accepted, which must happen within `acceptMs`. */
export const Offer = message('offer', z.object({ jobs: z.array(Job) }));
export const Lease = message(
  'lease',
  z.object({
    ok: z.array(RunRef.extend({ leaseMs: z.number() })),
    lost: z.array(RunRef.extend({ why: z.string() })),
    cancel: z.array(RunRef),
    /** Absent in the answer to an accept, which carries no clock. */
    clock: z.object({ t0: z.number(), t1: z.number(), t2: z.number() }).optional(),
  }),
);
export const Cancel = message('cancel', z.object({ runs: z.array(RunRef), graceMs: z.number() }));
/** Connect again after `retryAfterMs`; runs continue meanwhile. */
export const GoAway = message('goaway', z.object({ retryAfterMs: z.number(), why: z.string() }));
export const Upgrade = message(
  'upgrade',
  z.object({ minAgentVersion: z.string(), recommended: z.string().optional() }),
);
/** Answer to release, drain and anything refused for its epoch. */
export const Ok = message('ok', z.object({}));
export const Refused = message(
  'refused',
  z.object({ why: z.enum(['stale_epoch', 'not_welcome', 'bad_message']), detail: z.string().optional() }),
);

export const FromService = z.discriminatedUnion('t', [
  Welcome,
  Offer,
  Lease,
  Cancel,
  GoAway,
  Upgrade,
  Ok,
  Refused,
]);
export type FromService = z.infer<typeof FromService>;

/** Close codes of the socket; the long poll reports the same numbers in `{ close: { code, reason } }`. */
export const CloseCode = {
  badMessage: 4400,
  badKey: 4401,
  locationDisabled: 4403,
  replaced: 4409,
  upgradeRequired: 4426,
  tooMany: 4429,
  goingAway: 4503,
} as const;
