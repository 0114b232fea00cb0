import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { agentSettings } from '../../src/agent/settings.ts';
import { serviceSettings } from '../../src/service/settings.ts';

interface Part {
  environment: Record<string, string>;
  read_only?: boolean;
  cap_drop?: string[];
  build?: { target: string };
  volumes: string[];
}

const folder = join(import.meta.dirname, '../../examples/compose');
const text = readFileSync(join(folder, 'compose.yaml'), 'utf8');
const { services } = parse(text, { merge: true }) as { services: Record<string, Part> };
const settingNames = (settings: Record<string, { name: string }>): Set<string> =>
  new Set(Object.values(settings).flatMap(({ name }) => [name, `${name}_FILE`]));

test.each([
  ['agent-1', settingNames(agentSettings)],
  ['agent-2', settingNames(agentSettings)],
  ['service', settingNames(serviceSettings)],
])('the compose example sets nothing for %s that is no setting of it', (part, names) => {
  expect(Object.keys(services[part]!.environment).filter((name) => !names.has(name))).toEqual([]);
});

test('agents and service of the compose example are confined, and agents share no data folder', () => {
  const [first, second, service] = [services['agent-1']!, services['agent-2']!, services['service']!];
  for (const part of [first, second, service]) {
    expect(part).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
    const stages = readFileSync(join(folder, '../../Dockerfile'), 'utf8');
    expect(stages).toMatch(new RegExp(` AS ${part.build!.target}$`, 'm'));
  }
  const dataOf = ({ volumes }: Part): string | undefined =>
    volumes.find((each) => each.endsWith(':/var/lib/vedette'));
  expect(dataOf(first)).toBeDefined();
  expect(dataOf(first)).not.toBe(dataOf(second));
});

test('env.example has every variable that the compose example asks for', () => {
  const wanted = new Set([...text.matchAll(/\$\{(\w+):\?\}/g)].map(([, name]) => name));
  const given = readFileSync(join(folder, 'env.example'), 'utf8').matchAll(/^(\w+)=/gm);
  expect(new Set([...given].map(([, name]) => name))).toEqual(wanted);
});
