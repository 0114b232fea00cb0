import { writeFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';

/** What one vitest run came to. */
export interface Tally {
  files: number;
  passed: number;
  failed: number;
  /** Skipped tests by the reason that they gave. */
  skipped: Record<string, number>;
}

/** Vitest reporter that leaves a Tally in the file named by TALLY_FILE, for the closing line of the lanes. */
export default class TallyReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const file = process.env['TALLY_FILE'];
    if (file !== undefined) writeFileSync(file, JSON.stringify(tallyOf(modules)));
  }
}

function tallyOf(modules: readonly TestModule[]): Tally {
  const tally: Tally = { files: modules.length, passed: 0, failed: 0, skipped: {} };
  for (const module of modules) {
    if (module.errors().length > 0) tally.failed++;
    for (const test of module.children.allTests()) {
      const result = test.result();
      if (result.state === 'passed') tally.passed++;
      else if (result.state === 'failed') tally.failed++;
      else if (result.state === 'skipped') count(tally.skipped, result.note ?? 'their file says why, above');
    }
  }
  return tally;
}

function count(counts: Record<string, number>, key: string): void {
  counts[key] = (counts[key] ?? 0) + 1;
}
