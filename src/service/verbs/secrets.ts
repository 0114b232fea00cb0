import { z } from 'zod';
import { EnvironmentVariable } from '../../checks/index.ts';

const Variables = z.array(EnvironmentVariable);

/** A secret is shown with an empty value; coming back like that, it keeps the value that it had. */
export function keepSecrets(
  body: Record<string, unknown>,
  before: { environmentVariables?: z.output<typeof Variables> | null },
): Record<string, unknown> {
  const sent = Variables.safeParse(body['environmentVariables']);
  if (!sent.success) return body;
  const secrets = new Map(
    (before.environmentVariables ?? []).filter((each) => each.secret).map((each) => [each.key, each.value]),
  );
  const environmentVariables = sent.data.map((each) =>
    each.secret && each.value === '' ? { ...each, value: secrets.get(each.key) ?? '' } : each,
  );
  return { ...body, environmentVariables };
}

/** Variables as they are shown: the value of a secret never leaves the service. */
export function withoutSecrets<V extends { value: string; secret: boolean }>(
  variables: readonly V[] | null | undefined,
): V[] | null {
  return variables?.map((each) => (each.secret ? { ...each, value: '' } : each)) ?? null;
}
