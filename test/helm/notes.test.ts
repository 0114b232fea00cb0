import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CHART } from '../support/chart-values.ts';
import { describeUnless, mustRun } from '../support/programs.ts';
import { utf8 } from './chart.ts';
import { helm, toolsMissing } from './tools.ts';

/** Helm shows notes only where it finds a cluster. Of this copy of the chart they are an object like others. */
let copy = '';
beforeAll(() => {
  copy = mkdtempSync(join(tmpdir(), 'vedette-chart-'));
  cpSync(CHART, copy, { recursive: true });
  renameSync(join(copy, 'templates/NOTES.txt'), join(copy, 'notes.txt'));
  const object = 'kind: Notes\ntext: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n';
  writeFileSync(join(copy, 'templates/notes.yaml'), object);
});
afterAll(() => rmSync(copy, { recursive: true, force: true }));

async function notesOf(...set: string[]): Promise<string> {
  const args = ['template', 'demo', copy, '-s', 'templates/notes.yaml', '--set', set.join(',')];
  const [, text] = /^text: (.*)$/m.exec(utf8(await mustRun(helm.path, args))) ?? [];
  return JSON.parse(text ?? '""') as string;
}

describeUnless(toolsMissing(), 'the notes after an installation', () => {
  const agent = ['agent.serviceUrl=https://m.example', 'apiKeySecret.apiKey=pl_12345678'];

  test('say how to follow the start, and that one agent is too few', async () => {
    const text = await notesOf(...agent);
    expect(text).toContain('Agents for https://m.example');
    expect(text).toContain('rollout status deployment/demo-vedette-agent');
    expect(text).toContain('vedette doctor');
    expect(text).toContain('Set replicaCount=2');
    expect(await notesOf(...agent, 'replicaCount=2')).not.toContain('NOTE:');
  });

  test('warn of what the values bring with them', async () => {
    const text = await notesOf(
      ...agent,
      'capture.enabled=true,chromiumSandbox.enabled=true,networkPolicy.enabled=true',
    );
    expect(text).toContain('capture.enabled adds NET_RAW');
    expect(text).toContain('until vedette/chromium.json lies');
    expect(text).toContain('networkPolicy.egress is empty');
  });

  test('lead from the service to its agents', async () => {
    const text = await notesOf('service.enabled=true', 'agent.enabled=false');
    expect(text).toContain('logs deployment/demo-vedette-service');
    expect(text).toContain('/v1/private-locations');
    expect(text).not.toContain('emptyDir');
  });
});
