import { z } from 'zod';
import { scriptFields } from '../script-fields.ts';

const HOST = /^(?=.{1,253}$)([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.?$/i;

export const BrowserFields = z.strictObject({
  ...scriptFields,
  /** Expected pictures in a store of files; here they come as dependencies. */
  snapshots: z
    .array(z.strictObject({ path: z.string(), key: z.string() }))
    .max(0, 'must be empty: give expected pictures as dependencies, as data:image/png;base64,…')
    .nullable()
    .default(null),
  sslCheckDomain: z
    .string()
    .regex(HOST, 'must be a host name such as shop.example.com')
    .nullable()
    .default(null),
});
