import { z } from 'zod';
import { checkSchema, checkTypes, type CheckType } from '../../../checks/index.ts';
import type { CheckRow } from '../../store/index.ts';
import { instant, instantOrNull, Instant } from './shapes.ts';

const KeyValues = z.array(z.object({ key: z.string(), value: z.string(), locked: z.boolean() }));

/** The channels that a check alerts. They are managed elsewhere. */
const AlertChannels = z.object({
  email: z.array(z.object({ address: z.string() })),
  webhook: z.array(
    z.object({
      url: z.string(),
      name: z.string(),
      method: z.string(),
      headers: KeyValues,
      queryParameters: KeyValues,
    }),
  ),
  slack: z.array(z.object({ url: z.string() })),
  sms: z.array(z.object({ number: z.string(), name: z.string() })),
});

const readOnly = (type: CheckType) => ({
  id: z.uuid(),
  checkType: z.literal(type.name),
  created_at: Instant,
  updated_at: Instant.nullable(),
  alertChannels: AlertChannels,
});

const pascal = (type: CheckType): string =>
  type.route.replace(/(^|-)(\w)/g, (_all, _dash, letter: string) => letter.toUpperCase());

/** What a client writes and what it reads, per type. */
const inputs = new Map(
  checkTypes().map((type) => [
    type,
    z
      .strictObject({
        ...checkSchema(type).shape,
        checkType: z.literal(type.name).optional(),
      })
      .meta({ id: `${pascal(type)}CheckInput` }),
  ]),
);
const entries = new Map(
  checkTypes().map((type) => [
    type,
    z.strictObject({ ...checkSchema(type).shape, ...readOnly(type) }).meta({ id: `${pascal(type)}Check` }),
  ]),
);

export const inputOf = (type: CheckType): z.ZodObject => inputs.get(type)!;
export const entryOf = (type: CheckType): z.ZodObject => entries.get(type)!;
/** Any part of what was read may be sent back; what cannot be changed is ignored. */
export const changeOf = (type: CheckType): z.ZodObject => entryOf(type).partial();
export const AnyCheckInput = z.union([...inputs.values()]);
export const AnyCheckChange = z.union([...entries.values()].map((entry) => entry.partial()));
export const AnyCheck = z.union([...entries.values()]);

/** A check as clients read it: the value of a secret variable never leaves the service. */
export function showCheck(row: CheckRow): Record<string, unknown> {
  return {
    id: row.id,
    checkType: row.type,
    ...row.definition,
    environmentVariables: withoutSecrets(row.definition.environmentVariables),
    alertChannels: { email: [], webhook: [], slack: [], sms: [] },
    created_at: instant(row.created_at),
    updated_at: instantOrNull(row.updated_at),
  };
}

function withoutSecrets(variables: unknown): unknown {
  if (!Array.isArray(variables)) return variables;
  return variables.map((each: { secret: boolean }) => (each.secret ? { ...each, value: '' } : each));
}
