import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { describeUnless, lacks, runProgram } from '../support/programs.ts';
import { at, render, textAt, type Json } from './chart.ts';
import { toolsMissing } from './tools.ts';

const POD = 'namespace="monitoring",pod="demo-vedette-agent-7f-x"';
const pod = { namespace: 'monitoring', pod: 'demo-vedette-agent-7f-x' };
const office = { location: 'office' };

/** Series minute by minute, a moment, and what the alert says then: nothing, or its labels and its summary. */
type Case = readonly [
  alert: string,
  series: Readonly<Record<string, string>>,
  minute: number,
  fires?: { labels: object; summary: string },
];

const CASES = (
  [
    // Every copy of the service tells of the location.
    [
      'VedetteLocationStoppedReporting',
      {
        'vedette_location_agents{location="office",pod="a"}': '0x9',
        'vedette_location_agents{location="office",pod="b"}': '0x9',
      },
      6,
      { labels: office, summary: 'No agent serves the location office' },
    ],
    ['VedetteLocationStoppedReporting', { 'vedette_location_agents{location="office"}': '0 0 1x9' }, 9],
    [
      'VedetteLocationUnderProvisioned',
      { 'vedette_location_oldest_run_age_seconds{location="office"}': '90x20' },
      11,
      { labels: office, summary: 'Runs of the location office wait for 1m 30s' },
    ],
    [
      'VedetteLocationUnderProvisioned',
      { 'vedette_location_oldest_run_age_seconds{location="office"}': '50x20' },
      19,
    ],
    [
      'VedetteRunsLost',
      { 'vedette_location_runs_expired_total{location="office",reason="no_agent",pod="a"}': '0 0 1x9' },
      4,
      { labels: office, summary: 'Runs of the location office were lost' },
    ],
    [
      'VedetteRunsLost',
      { 'vedette_location_runs_expired_total{location="office",reason="no_agent"}': '7x30' },
      20,
    ],
    [
      'VedetteAgentsOutdated',
      { 'vedette_location_agents_outdated{location="office"}': '2x70' },
      61,
      { labels: office, summary: '2 agents of the location office are older than the service' },
    ],
    [
      'VedetteAgentsDisconnected',
      { [`vedette_agent_connected{${POD}}`]: '0x9' },
      6,
      { labels: {}, summary: 'No agent in namespace monitoring is connected to the service' },
    ],
    // Agents of another release are no comfort.
    [
      'VedetteAgentsDisconnected',
      { 'vedette_agent_connected{namespace="elsewhere",pod="demo-vedette-agent-1"}': '1x9' },
      6,
      {
        labels: { namespace: 'monitoring' },
        summary: 'No agent in namespace monitoring is connected to the service',
      },
    ],
    [
      'VedetteAgentsDisconnected',
      {
        [`vedette_agent_connected{${POD}}`]: '0x9',
        'vedette_agent_connected{namespace="monitoring",pod="demo-vedette-agent-8"}': '1x9',
      },
      8,
    ],
    [
      'VedetteResultsLost',
      { [`vedette_agent_spool_dead{${POD}}`]: '0 3x9' },
      2,
      {
        labels: pod,
        summary: 'The agent demo-vedette-agent-7f-x has 3 results that the service will never take',
      },
    ],
    [
      'VedetteResultsWaiting',
      { [`vedette_agent_spool_results{${POD}}`]: '4x30' },
      16,
      { labels: pod, summary: 'The agent demo-vedette-agent-7f-x cannot deliver results' },
    ],
    // Results that come and go are the way of a healthy agent.
    [
      'VedetteResultsWaiting',
      { [`vedette_agent_spool_results{${POD}}`]: '4 0 9 0 4 0 9 0 4 0 9 0 4 0 9 0 4 0' },
      16,
    ],
    [
      'VedetteSandboxNotFull',
      { [`vedette_agent_sandbox{${POD},state="partial"}`]: '1x9' },
      6,
      {
        labels: { ...pod, state: 'partial' },
        summary: 'The walls around user code on demo-vedette-agent-7f-x are partial',
      },
    ],
    ['VedetteSandboxNotFull', { [`vedette_agent_sandbox{${POD},state="full"}`]: '1x9' }, 8],
  ] satisfies Case[]
).map(([alert, series, minute, fires]: Case, i) => ({ alert, series, minute, fires, i }));

describeUnless(toolsMissing() ?? lacks('promtool'), 'alerts in Prometheus itself', () => {
  let folder = '';
  let rules: Json[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'vedette-alerts-'));
    const rendered = await render({ metrics: { prometheusRule: { enabled: true } } });
    const groups = at(rendered.find('PrometheusRule'), 'spec.groups') as Json[];
    rules = at(groups[0], 'rules') as Json[];
    writeFileSync(join(folder, 'rules.yml'), JSON.stringify({ groups }));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('every alert has a case in which it fires', () => {
    const named = rules.flatMap((rule) => (at(rule, 'alert') === undefined ? [] : [textAt(rule, 'alert')]));
    const firing = new Set(CASES.flatMap(({ alert, fires }) => (fires === undefined ? [] : [alert])));
    expect([...firing].sort()).toEqual(named.sort());
  });

  test.each(CASES)('$alert, case $i', async ({ alert: alertname, series, minute, fires, i }) => {
    const rule = rules.find((each) => at(each, 'alert') === alertname);
    const expected = fires && {
      exp_labels: { ...fires.labels, severity: textAt(rule, 'labels.severity') },
      exp_annotations: { summary: fires.summary, description: textAt(rule, 'annotations.description') },
    };
    const file = join(folder, `case-${i}.yml`);
    const spec = {
      rule_files: ['rules.yml'],
      tests: [
        {
          interval: '1m',
          input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
          alert_rule_test: [{ alertname, eval_time: `${minute}m`, exp_alerts: expected ? [expected] : [] }],
        },
      ],
    };
    writeFileSync(file, JSON.stringify(spec));
    const { code, stderr } = await runProgram('promtool', ['test', 'rules', file]);
    expect([code, stderr]).toEqual([0, '']);
  });
});
