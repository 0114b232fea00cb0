import { expect, test } from 'vitest';
import { chartValues } from '../support/chart-values.ts';
import { describeUnless } from '../support/programs.ts';
import { AGENT_VALUES } from './agent-values.ts';
import { expectGood, overlay, render, valueAt } from './chart.ts';
import { OPERATIONS_VALUES } from './operations-values.ts';
import { SERVICE_VALUES } from './service-values.ts';
import { toolsMissing } from './tools.ts';

const ALL = [...AGENT_VALUES, ...OPERATIONS_VALUES, ...SERVICE_VALUES];

test('every value of the chart has a test, and every one says what it is for', () => {
  const values = chartValues();
  expect(ALL.map(({ path }) => path).sort()).toEqual(values.map(({ path }) => path).sort());
  expect(values.filter(({ meaning }) => !/^[A-Za-z].*\.$|…$/.test(meaning))).toEqual([]);
});

describeUnless(toolsMissing(), 'a value does what it says, and nothing that a cluster would refuse', () => {
  test.concurrent.each(ALL)('$path', async ({ path, set, also = {}, shows, as, unrestricted }) => {
    const rendered = await render(overlay(also, valueAt(path, set)));
    expect(shows(rendered) ?? null).toEqual(as);
    if (unrestricted === undefined) return expectGood(rendered);
    expect(rendered.problems).toEqual([]);
    expect(rendered.against('restricted')).not.toEqual([]);
    expect(rendered.against('baseline')).not.toEqual([]);
  });
});
