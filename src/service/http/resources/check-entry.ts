import { z } from 'zod';
import { checkSchema, checkTypes, type Check, type CheckType } from '../../../checks/index.ts';
import { withGroup, type Group } from '../../definitions/index.ts';
import { withoutSecrets } from '../../verbs/index.ts';
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

const DEPENDENCIES = new Set(['dependencies', 'setupScriptDependencies', 'tearDownScriptDependencies']);

const readOnly = (type: CheckType) => ({
  id: z.uuid(),
  checkType: z.literal(type.name),
  created_at: Instant,
  updated_at: Instant.nullable(),
  alertChannels: AlertChannels,
});

const pascal = (type: CheckType): string =>
  type.route.replace(/(^|-)(\w)/g, (_all, _dash, letter: string) => letter.toUpperCase());

/** The fields of a type as they are read: files of scripts may be missing. */
const readShape = (type: CheckType): z.ZodRawShape =>
  Object.fromEntries(
    Object.entries(checkSchema(type).shape).map(([name, field]) => [
      name,
      DEPENDENCIES.has(name) && field instanceof z.ZodDefault
        ? (field.unwrap() as z.ZodType).optional().describe('Only with includeDependencies')
        : field,
    ]),
  );

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
    z.strictObject({ ...readShape(type), ...readOnly(type) }).meta({ id: `${pascal(type)}Check` }),
  ]),
);

export const inputOf = (type: CheckType): z.ZodObject => inputs.get(type)!;
export const entryOf = (type: CheckType): z.ZodObject => entries.get(type)!;
/** Any part of what was read may be sent back; what cannot be changed is ignored. */
export const changeOf = (type: CheckType): z.ZodObject => entryOf(type).partial();
export const AnyCheckInput = z.union([...inputs.values()]);
export const AnyCheckChange = z.union([...entries.values()].map((entry) => entry.partial()));
export const AnyCheck = z.union([...entries.values()]);

export interface Shown {
  /** Files of a script are many and large: left out where they were not asked for. */
  includeDependencies: boolean;
  /** With this group's settings in place of the check's own. */
  group?: Group | undefined;
}

/** A check as clients read it: the value of a secret variable never leaves the service. */
export function showCheck(
  row: CheckRow,
  { includeDependencies, group }: Shown = { includeDependencies: true },
): Record<string, unknown> {
  const check = withGroup(row.type, row.definition as Check, group);
  const shown = {
    id: row.id,
    checkType: row.type,
    ...check,
    environmentVariables: withoutSecrets(check.environmentVariables),
    alertChannels: { email: [], webhook: [], slack: [], sms: [] },
    created_at: instant(row.created_at),
    updated_at: instantOrNull(row.updated_at),
  };
  if (includeDependencies) return shown;
  return Object.fromEntries(
    Object.entries(shown).filter(([name, value]) => value === null || !DEPENDENCIES.has(name)),
  );
}
