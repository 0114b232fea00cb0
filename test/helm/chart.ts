import { expect } from 'vitest';
import { CHART } from '../support/chart-values.ts';
import { runProgram, type Finished } from '../support/programs.ts';
import { helm, validator } from './tools.ts';

/** What is looked up in a rendered object: anything JSON, reached by a path. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type Values = Readonly<Record<string, unknown>>;

interface Verdict {
  object: Json;
  problems: string[];
  restricted: string[];
  baseline: string[];
}

/** What every installation of agents must say. */
export const NEEDED: Values = {
  agent: { serviceUrl: 'https://monitoring.example' },
  apiKeySecret: { apiKey: 'pl_0123456789abcdef' },
};

/** The objects of one rendering. */
export class Rendered {
  readonly #verdicts: readonly Verdict[];

  constructor(verdicts: readonly Verdict[]) {
    this.#verdicts = verdicts;
  }

  get kinds(): string[] {
    return this.#verdicts.map(({ object }) => textAt(object, 'kind')).sort();
  }

  get objects(): Json[] {
    return this.#verdicts.map(({ object }) => object);
  }

  /** What an API server has against the objects. */
  get problems(): string[] {
    return this.#verdicts.flatMap(({ object, problems }) =>
      problems.map((problem) => `${textAt(object, 'kind')}: ${problem}`),
    );
  }

  /** What the Pod Security level has against the pods. */
  against(level: 'restricted' | 'baseline'): string[] {
    return this.#verdicts.flatMap((verdict) => verdict[level]);
  }

  /** The only object of a kind, or the one of a component where both have one; undefined when there is none. */
  find(kind: string, component?: 'agent' | 'service'): Json | undefined {
    const found = this.objects.filter(
      (object) =>
        at(object, 'kind') === kind &&
        (component === undefined ||
          at(object, 'metadata.labels.app\\.kubernetes\\.io/component') === component),
    );
    expect(found.length, `objects of kind ${kind}`).toBeLessThan(2);
    return found[0];
  }

  /** A place in the agents' or the service's pod. */
  pod(path: string, component: 'agent' | 'service' = 'agent'): Json | undefined {
    const workload = this.find('Deployment', component) ?? this.find('StatefulSet', component);
    return at(workload, `spec.template.${path}`);
  }

  /** A place in its container. */
  container(path: string, component: 'agent' | 'service' = 'agent'): Json | undefined {
    return this.pod(`spec.containers.0.${path}`, component);
  }

  /** One variable of its environment: the text, or where it comes from. */
  env(name: string, component: 'agent' | 'service' = 'agent'): Json | undefined {
    const found = (this.container('env', component) as Json[]).filter((entry) => at(entry, 'name') === name);
    expect(found.length, `entries of ${name}`).toBeLessThan(2);
    return at(found[0], 'value') ?? at(found[0], 'valueFrom');
  }
}

/** The value at `a.b.0.c`; `\.` is a dot within a key. */
export function at(json: Json | undefined, path: string): Json | undefined {
  const keys = path.split(/(?<!\\)\./).map((key) => key.replaceAll('\\.', '.'));
  return keys.reduce<Json | undefined>((value, key) => {
    if (typeof value !== 'object' || value === null) return undefined;
    return (value as Record<string, Json>)[key];
  }, json);
}

/** The text there. @throws Error where there is none */
export function textAt(json: Json | undefined, path: string): string {
  const found = at(json, path);
  if (typeof found === 'string') return found;
  throw new Error(`no text at ${path} of ${JSON.stringify(json)}`);
}

/** Values with others laid over them, as helm does it. */
export function overlay(base: Values, over: Values): Values {
  const made: Record<string, unknown> = { ...base };
  for (const [key, value] of Object.entries(over)) {
    const below = made[key];
    made[key] = isObject(value) && isObject(below) ? overlay(below, value) : value;
  }
  return made;
}

const isObject = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** `{ 'a.b': 1 }` as values. */
export function valueAt(path: string, value: unknown): Values {
  return path
    .split('.')
    .reverse()
    .reduce<unknown>((inner, key) => ({ [key]: inner }), value) as Values;
}

/** What helm makes of values, on top of those that are needed; nothing is judged. */
export function template(values: Values, args: readonly string[] = []): Promise<Finished> {
  const input = JSON.stringify(overlay(NEEDED, values));
  return runProgram(helm.path, ['template', 'demo', CHART, '-n', 'monitoring', '-f', '-', ...args], {
    input,
  });
}

/** Renders values, on top of those that are needed. @throws Error with what helm says */
export async function render(values: Values = {}, args: readonly string[] = []): Promise<Rendered> {
  const { code, stdout, stderr } = await template(values, args);
  if (code !== 0) throw new Error(utf8(stderr));
  return new Rendered(JSON.parse(await judge([], utf8(stdout))) as Verdict[]);
}

/** What Prometheus' parser says of expressions. */
export async function parsePromql(
  expressions: readonly string[],
): Promise<{ error: string; metrics: string[] }[]> {
  return JSON.parse(await judge(['promql'], JSON.stringify(expressions))) as {
    error: string;
    metrics: string[];
  }[];
}

async function judge(args: readonly string[], input: string): Promise<string> {
  const { code, stdout, stderr } = await runProgram(validator.path, args, { input });
  if (code !== 0) throw new Error(utf8(stderr));
  return utf8(stdout);
}

/** Output of programs is read byte by byte. */
export const utf8 = (bytes: string): string => Buffer.from(bytes, 'latin1').toString('utf8');

/** Valid to a strict API server, and fit for a namespace that enforces `restricted`. */
export function expectGood(rendered: Rendered): void {
  expect(rendered.problems).toEqual([]);
  expect(rendered.against('restricted')).toEqual([]);
}
