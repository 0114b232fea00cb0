import { z } from 'zod';
import { CHECK_TYPES } from '../../../checks/index.ts';

/** Shapes that several resources show. */
export const Instant = z.iso.datetime();
export const CheckTypeName = z.enum(CHECK_TYPES);
export const paging = {
  limit: z.int().min(1).max(100).default(10),
  page: z.int().min(1).max(1_000_000).default(1),
};

/** Above this a number is milliseconds: as seconds it would be the year 5138. */
const MAX_UNIX_SECONDS = 1e11;
export const fromUnix = (unix: number): Date => new Date(unix > MAX_UNIX_SECONDS ? unix : unix * 1000);

const MOMENT_WORDS = 'a date, an ISO 8601 instant with its zone, or a UNIX time in seconds is allowed';
const Instants = z.iso.datetime({ offset: true });
const Days = z.iso.date();
const DAY_MS = 86_400_000;

/** When a window begins or ends, as a query parameter: an instant, or a whole day in UTC. */
export const Moment = z
  .string()
  .regex(/^[\dTZtz:.+-]{1,40}$/, MOMENT_WORDS)
  .transform((text, context) => {
    if (/^\d{1,14}(\.\d{1,9})?$/.test(text)) return { at: fromUnix(Number(text)), lastsMs: 0 };
    if (Instants.safeParse(text).success) return { at: new Date(text), lastsMs: 0 };
    if (Days.safeParse(text).success) return { at: new Date(text), lastsMs: DAY_MS };
    context.addIssue({ code: 'custom', message: MOMENT_WORDS });
    return z.NEVER;
  });

export const instant = (date: Date): string => date.toISOString();
export const instantOrNull = (date: Date | null): string | null => date?.toISOString() ?? null;
