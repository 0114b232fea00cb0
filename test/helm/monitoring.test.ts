import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AgentMetrics } from '../../src/agent/health/index.ts';
import { agentMetrics } from '../../src/service/agents/index.ts';
import { Metrics } from '../../src/service/http/index.ts';
import { CHART } from '../support/chart-values.ts';
import { describeUnless } from '../support/programs.ts';
import { at, parsePromql, render, textAt, type Json } from './chart.ts';
import { toolsMissing } from './tools.ts';

const dashboard = JSON.parse(readFileSync(join(CHART, 'dashboards/vedette.json'), 'utf8')) as Json;

/** Every name that agent or service exposes, as Prometheus stores it. */
async function exposed(): Promise<Set<string>> {
  const agent = new AgentMetrics('1.0.0', () => ({
    connected: true,
    transport: 'socket',
    slotsTotal: 1,
    slotsFree: 1,
    running: 0,
    waiting: 0,
    spoolResults: 0,
    spoolBytes: 0,
    spoolDead: 0,
    probes: 1,
    probesRssBytes: 1,
    runningByClass: {},
    spares: {},
    sandbox: 'full',
  }));
  const service = new Metrics();
  service.watch({ current: async () => [] });
  agentMetrics(service.registry);
  const texts = await Promise.all([agent.text(), service.registry.metrics()]);
  const types = texts.flatMap((text) => [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]);
  return new Set(types.flatMap(([, name, type]) => namesOf(name!, type!)));
}

const namesOf = (name: string, type: string): string[] =>
  type === 'histogram' ? ['_bucket', '_sum', '_count'].map((part) => name + part) : [name];

const panels = (): Json[] =>
  (at(dashboard, 'panels') as Json[]).filter((panel) => at(panel, 'type') !== 'row');
const panelExpressions = (): string[] =>
  panels().flatMap((panel) => (at(panel, 'targets') as Json[]).map((target) => textAt(target, 'expr')));

/** As Grafana sends it. */
const filledIn = (expression: string): string =>
  expression.replaceAll('$__rate_interval', '2m').replaceAll('$__range', '6h').replace(/\$\w+/g, '.*');

async function rules(values = {}): Promise<Json[]> {
  const rendered = await render({ metrics: { prometheusRule: { enabled: true } }, ...values });
  return at(rendered.find('PrometheusRule'), 'spec.groups.0.rules') as Json[];
}

/** Names that rules and dashboard may ask for. @throws AssertionError where Prometheus cannot read one */
async function metricsIn(expressions: readonly string[]): Promise<string[]> {
  const parsed = await parsePromql(expressions);
  expect(parsed.flatMap(({ error }) => (error === '' ? [] : [error]))).toEqual([]);
  return [...new Set(parsed.flatMap(({ metrics }) => metrics))];
}

describeUnless(toolsMissing(), 'alerts and dashboard', () => {
  test('Prometheus reads every expression, and every metric in them is one of ours', async () => {
    const fromRules = (await rules()).map((rule) => textAt(rule, 'expr'));
    const fromLocation = (await rules({ agent: { location: 'office' } })).map((rule) => textAt(rule, 'expr'));
    const asked = await metricsIn([...fromRules, ...fromLocation, ...panelExpressions().map(filledIn)]);
    const known = await exposed();
    expect(asked.filter((name) => !known.has(name))).toEqual([]);
    expect(asked.length).toBeGreaterThan(20);
  });

  test('so it is with the queries that scale agents', async () => {
    const [rendered, [recorded]] = await Promise.all([
      render({ agent: { location: 'office' }, keda: { enabled: true } }),
      rules(),
    ]);
    const query = textAt(rendered.find('ScaledObject'), 'spec.triggers.0.metadata.query');
    const known = await exposed();
    const asked = await metricsIn([query, textAt(recorded, 'expr')]);
    expect(asked.sort()).toEqual(['vedette_location_queue_size', 'vedette_location_runs_in_flight']);
    expect(asked.every((name) => known.has(name))).toBe(true);
  });

  test('a metric that is not ours would be found', async () => {
    expect((await exposed()).has('vedette_location_queue_length')).toBe(false);
    const [parsed] = await parsePromql(['sum(by)(x']);
    expect(parsed?.error).toContain('parse error');
  });

  test('every alert says what is wrong, what to do and how bad it is', async () => {
    const alerts = (await rules()).filter((rule) => at(rule, 'alert') !== undefined);
    expect(alerts).toHaveLength(8);
    for (const alert of alerts) {
      expect(textAt(alert, 'labels.severity')).toMatch(/^(critical|warning)$/);
      expect(textAt(alert, 'annotations.summary').length).toBeGreaterThan(20);
      expect(textAt(alert, 'annotations.description')).toMatch(/\.$/);
    }
    const readme = readFileSync(join(CHART, 'README.md'), 'utf8');
    for (const alert of alerts) expect(readme).toContain(`| ${textAt(alert, 'alert')} `);
  });
});

test('the dashboard is one that Grafana can lay out', () => {
  const all = at(dashboard, 'panels') as Json[];
  const ids = all.map((panel) => at(panel, 'id'));
  expect(new Set(ids).size).toBe(ids.length);
  for (const panel of panels()) {
    expect(textAt(panel, 'description')).toMatch(/\.$/);
    expect(at(panel, 'datasource.uid')).toBe('${datasource}');
    const { x, w } = at(panel, 'gridPos') as { x: number; w: number };
    expect(x + w).toBeLessThanOrEqual(24);
  }
  const variables = (at(dashboard, 'templating.list') as Json[]).map((variable) => textAt(variable, 'name'));
  const used = panelExpressions().flatMap((text) => [...text.matchAll(/\$(\w+)/g)].map(([, name]) => name!));
  const builtIn = ['__rate_interval', '__range'];
  expect([...new Set(used)].filter((name) => !builtIn.includes(name) && !variables.includes(name))).toEqual(
    [],
  );
});
