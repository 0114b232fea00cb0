import { z } from 'zod';

/** The store keeps counters in 32 bits; what does not fit is refused at the door. */
const Counter = z.int().max(2_147_483_647);

/**
 * A run as the agent sees it: one try of one check at one location. `spec` is the check's own
 * definition; its type's schema (src/checks) says what is in it. `checkType` is an open string: an
 * agent that does not know it declines the job with `unsupported` instead of failing on the message.
 */
export const Job = z.object({
  runId: z.int().positive(),
  /** The fence: rises by one at each claim of the run. */
  token: Counter.positive(),
  /** 0 for the first try of a run, 1 for its first retry, … */
  attempt: z.int().min(0),
  sequenceId: z.uuid(),
  sessionId: z.uuid(),
  /** 0 on demand, 1 scheduled, 2 catch-up. */
  lane: z.int().min(0).max(2),
  checkId: z.uuid(),
  checkType: z.string(),
  name: z.string(),
  /** Slug of the private location. */
  location: z.string(),
  /** Proxy for HTTP targets, as configured on the location; null without. */
  proxyUrl: z.string().nullable(),
  scheduledAt: z.iso.datetime(),
  /** Longest time one try may take, ms. The agent kills it then. */
  timeoutMs: z.int().positive(),
  /** For the variables that user code sees; absent from services that do not know them. */
  accountId: z.uuid().optional(),
  /** What started the run: `SCHEDULER`, `TRIGGER_API`, … Ad-hoc runs keep their trace and video always. */
  runSource: z.string().optional(),
  spec: z.record(z.string(), z.unknown()),
});
export type Job = z.infer<typeof Job>;

/** Names a claimed run. Every message about a run carries both. */
export const RunRef = z.object({ runId: z.int().positive(), token: Counter.positive() });
export type RunRef = z.infer<typeof RunRef>;
