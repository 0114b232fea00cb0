import { z } from 'zod';
import { CHECK_TYPES } from '../../../checks/index.ts';

/** Shapes that several resources show. */
export const Instant = z.iso.datetime();
export const CheckTypeName = z.enum(CHECK_TYPES);
export const paging = {
  limit: z.int().min(1).max(100).default(10),
  page: z.int().min(1).max(1_000_000).default(1),
};

export const instant = (date: Date): string => date.toISOString();
export const instantOrNull = (date: Date | null): string | null => date?.toISOString() ?? null;
