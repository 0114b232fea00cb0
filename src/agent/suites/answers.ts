import { z } from 'zod';

const Word = z.string().max(300);
const Path = z
  .string()
  .max(4096)
  .refine((path) => !path.startsWith('/') && !path.split('/').includes('..'));

/*
 * What the process of a suite answers, as the agent reads it: types in protocol.ts.
 */
export const Ended = z.object({ code: z.int().nullable(), signal: z.string().nullable() });
export const Packed = z.object({ bytes: z.int().min(0) });
export const Wrapped = z.object({ path: z.string() });
export const Project = z.object({
  packageManager: z.object({
    name: z.enum(['npm', 'pnpm', 'yarn', 'bun']),
    version: z
      .string()
      .regex(/^\d+\.\d+\.\d+(-[\w.]+)?$/)
      .max(60)
      .nullable(),
    isBerry: z.boolean(),
    pnp: z.boolean(),
  }),
  lockFolder: Path,
  engine: z.object({ name: z.enum(['node', 'bun']), range: Word, saidBy: Word }).nullable(),
  playwrightVersion: Word.nullable(),
  config: Path,
  dependenciesHash: z.string().regex(/^[0-9a-f]{64}$/),
  installsByOwnCode: z.boolean(),
});
export const InstalledPlaywright = z.object({
  version: z
    .string()
    .regex(/^\d+\.\d+\.\d+(-[\w.]+)?$/)
    .max(60),
  browsers: z
    .array(
      z.object({ name: z.string().regex(/^[a-z0-9-]{1,60}$/), revision: z.string().regex(/^[\w.]{1,40}$/) }),
    )
    .max(100),
});
