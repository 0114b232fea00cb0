import { expect, test } from 'vitest';
import { runResult } from '../../../test/support/results.ts';
import type { Job } from '../../contract/index.ts';
import { newId } from '../../kit/ids.ts';
import { AgentMetrics } from './index.ts';

const metrics = (): AgentMetrics =>
  new AgentMetrics('1.2.3', () => ({
    connected: true,
    transport: 'socket',
    slotsTotal: 8,
    slotsFree: 7,
    running: 1,
    waiting: 0,
    spoolResults: 2,
    spoolBytes: 300,
    spoolDead: 0,
    probes: 2,
    probesRssBytes: 1e8,
    runningByClass: { light: 1, script: 0, browser: 0, suite: 2 },
    spares: { browser: 1, multistep: 0, api: 1 },
    sandbox: 'partial',
  }));

const job = (more: Partial<Job> = {}): Job => ({
  runId: 1,
  token: 1,
  attempt: 0,
  sequenceId: newId(),
  sessionId: newId(),
  lane: 1,
  checkId: newId(),
  checkType: 'URL',
  name: 'shop "front"',
  location: 'here',
  proxyUrl: null,
  scheduledAt: '2026-01-01T00:00:00.000Z',
  timeoutMs: 30_000,
  spec: {},
  ...more,
});

test('the last result of a check appears under the names of blackbox_exporter', async () => {
  const m = metrics();
  const j = job();
  const labels = `check_id="${j.checkId}",check_name="shop \\"front\\"",check_type="URL"`;
  m.tryFinished(j, runResult({ flags: { ...runResult().flags, hasFailures: true } }));
  m.tryFinished(j, runResult());
  const text = await m.text();
  expect(text).toContain(`probe_success{${labels}} 1`);
  expect(text).toContain(`probe_duration_seconds{${labels}} 1`);
  expect(text).toContain(`probe_http_status_code{${labels}} 200`);
  expect(text).toContain(`probe_dns_lookup_time_seconds{${labels}} 0.001`);
  expect(text).toContain(`probe_http_duration_seconds{${labels},phase="processing"} 0.004`);
  expect(text).toContain('vedette_agent_tries_total{type="URL",verdict="failed"} 1');
  expect(text).toContain('vedette_agent_tries_total{type="URL",verdict="passed"} 1');
  expect(text).toContain('vedette_agent_slots_free 7');
  expect(text).toContain('vedette_agent_scripts_warm{kind="browser"} 1');
  expect(text).toContain('vedette_agent_runs_by_class{class="light"} 1');
  expect(text).toContain('vedette_agent_runs_by_class{class="suite"} 2');
  expect(text).toContain('vedette_agent_sandbox{state="partial"} 1');
  expect(text).toContain('vedette_agent_info{version="1.2.3"} 1');
});

test('a run that could not observe its target says nothing about it', async () => {
  const m = metrics();
  m.tryFinished(job(), runResult({ flags: { ...runResult().flags, hasErrors: true } }));
  expect(await m.text()).not.toMatch(/^probe_success\{/m);
});

test('the series of checks are bounded', async () => {
  const m = metrics();
  const first = job();
  m.tryFinished(first, runResult());
  for (let i = 0; i < 1000; i++) m.tryFinished(job(), runResult());
  const text = await m.text();
  expect(text.match(/^probe_success\{/gm)).toHaveLength(1000);
  expect(text).not.toContain(first.checkId);
});
