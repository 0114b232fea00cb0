import { describe, expect, test } from 'vitest';
import type { BatteryReport } from './battery.ts';
import { runBattery, SETTINGS } from './settings.ts';

/** One line per attack that is not stopped, or that was stopped where it must not be. */
const open = ({ sections }: BatteryReport): string[] =>
  sections.flatMap(({ title, rows }) =>
    rows.filter((row) => row.open).map(({ name, outcome }) => `${title}: ${name}: ${outcome}`),
  );

function print(setting: string, { sandbox, sections }: BatteryReport): void {
  const missing = sandbox.missing.length > 0 ? ` (missing: ${sandbox.missing.join('; ')})` : '';
  const lines = [`hostile battery, ${setting}: sandbox ${sandbox.state}${missing}`];
  for (const { title, rows } of sections) {
    const stopped = rows.filter((row) => !row.open).length;
    lines.push(`  ${title}: ${stopped} of ${rows.length} as they must be`);
    if (title === 'bombs')
      lines.push(...rows.map(({ name, outcome }) => `    ${name.padEnd(16)} ${outcome}`));
  }
  console.log(lines.join('\n'));
}

describe('hostile code', () => {
  test.for(SETTINGS)('$name: every attack is stopped', async (setting, { skip }) => {
    const lacks = setting.lacks();
    if (lacks !== undefined) {
      console.log(`vedette: hostile battery skipped for ${setting.name}: ${lacks}`);
      return skip(lacks);
    }
    const report = await runBattery(setting);
    print(setting.name, report);
    expect(report.sections.map(({ rows }) => rows.length).every((rows) => rows > 5)).toBe(true);
    expect(open(report)).toEqual([]);
  });
});
