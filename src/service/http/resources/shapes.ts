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
const MOMENT_FORMS = [z.iso.date(), z.iso.datetime({ offset: true })];

/** A moment as a query parameter. A calendar date is its first instant, in UTC. */
export const Moment = z
  .string()
  .regex(/^[\dTZtz:.+-]{1,40}$/, MOMENT_WORDS)
  .transform((text, context) => {
    if (/^\d{1,14}(\.\d{1,9})?$/.test(text)) return fromUnix(Number(text));
    if (MOMENT_FORMS.some((form) => form.safeParse(text).success)) return new Date(text);
    context.addIssue({ code: 'custom', message: MOMENT_WORDS });
    return z.NEVER;
  });

export const instant = (date: Date): string => date.toISOString();
export const instantOrNull = (date: Date | null): string | null => date?.toISOString() ?? null;
