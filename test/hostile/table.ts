import { afterAll, describe, expect, test } from 'vitest';
import type { BatteryReport } from './battery.ts';
import { runBattery, type Setting } from './settings.ts';

/**
 * What stays open where jobs cannot have users of their own, since the agent is not root: Chromium does not
 * run without the folders of /proc, and the kernel lets every process list the descriptors of another of
 * its user. That is their numbers: what they are is neither to be read nor to be opened, and a script
 * without a browser does not get the list.
 */
const SAME_USER = new Set(
  ['browser', 'suite'].flatMap((profile) => [
    `${profile}, two jobs: another job: fd`,
    `${profile}, two jobs: another job's browser: fd`,
    `${profile}, egress: the egress process: fd`,
  ]),
);

/** One line per attack that is not stopped, or that was stopped where it must not be. */
const openRows = ({ sections }: BatteryReport): { what: string; outcome: string }[] =>
  sections.flatMap(({ title, rows }) =>
    rows.filter((row) => row.open).map(({ name, outcome }) => ({ what: `${title}: ${name}`, outcome })),
  );

const lines: string[] = [];
const table: string[][] = [];

function note(setting: string, report: BatteryReport): void {
  const counts = report.sections.map(
    ({ rows }) => `${rows.filter(({ open }) => !open).length}/${rows.length}`,
  );
  if (table.length === 0) table.push(['stopped of all', ...report.sections.map(({ title }) => title)]);
  table.push([setting, ...counts]);
  for (const { what, outcome } of openRows(report)) {
    lines.push(`  ${setting}: ${outcome}: ${what}${SAME_USER.has(what) ? ' (numbers only, same user)' : ''}`);
  }
  for (const { title, rows } of report.sections.filter(({ title }) => title.endsWith('bombs'))) {
    const ends = rows.map(({ name, outcome }) => `${name}: ${outcome}`);
    lines.push(`  ${setting}, ${title} (noticed after + ended in): ${ends.join('; ')}`);
  }
}

/** Sections down, settings across. */
function drawn(): string[] {
  const width = table.map((column) => Math.max(0, ...column.map((cell) => cell.length)));
  return (table[0] ?? []).map((_, row) =>
    table
      .map((column, n) => (column[row] ?? '').padEnd(width[n]!))
      .join('  ')
      .trimEnd(),
  );
}

/** A test for each setting; the table of all attacks is printed at the end. */
export function testBattery(settings: readonly Setting[]): void {
  afterAll(() => console.log(['hostile battery', ...drawn(), ...lines].join('\n')));

  describe('hostile code', () => {
    test.for(settings)('$name: every attack is stopped', async (setting, { skip, signal }) => {
      const lacks = setting.lacks();
      if (lacks !== undefined) {
        lines.push(`  skipped, ${setting.name}: ${lacks}`);
        return skip(lacks);
      }
      const report = await runBattery(setting, signal);
      note(setting.name, report);
      expect(report.sections.map(({ rows }) => rows.length).every((rows) => rows >= 4)).toBe(true);
      const open = openRows(report).filter(({ what }) => setting.isRoot || !SAME_USER.has(what));
      expect(open).toEqual([]);
    });
  });
}
