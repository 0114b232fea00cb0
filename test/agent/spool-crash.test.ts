import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { expect, test } from 'vitest';
import { openSpool } from '../../src/agent/spool/index.ts';
import { temporaryFolder } from '../support/agent.ts';
import { until } from '../support/fake-service.ts';
import { runResult } from '../support/results.ts';

const log = pino({ level: 'silent' });
const writer = new URL('../support/spool-writer.ts', import.meta.url).pathname;

test('kill -9 in the middle of writing: every accepted result is there afterwards', async () => {
  using folder = temporaryFolder();
  for (let round = 0; round < 3; round++) {
    const child = spawn(process.execPath, [writer, folder.path], { stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    child.stdout.on('data', (chunk: Buffer) => (printed += chunk.toString()));
    await until('some results', () => printed.length > 2_000 * (round + 1));
    child.kill('SIGKILL');
    await once(child, 'close');
    const accepted = printed.slice(0, printed.lastIndexOf('\n')).split('\n');
    const spool = openSpool(folder.path, log);
    const kept = new Set(Array.from(spool.pending(), ({ resultId }) => resultId));
    spool.close();
    expect(accepted.filter((id) => !kept.has(id))).toEqual([]);
  }
});

test('a disk that is full: nothing is lost, sending goes on from memory, and room is used again', async (context) => {
  using folder = temporaryFolder();
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', folder.path], { stdio: 'ignore' });
  } catch {
    context.skip('needs root to mount a small file system');
  }
  try {
    const spool = openSpool(folder.path, log);
    writeFileSync(join(folder.path, 'ballast'), '');
    try {
      writeFileSync(join(folder.path, 'ballast'), Buffer.alloc(2_000_000));
    } catch {
      // Full, as meant.
    }
    let saved = 0;
    const results = Array.from({ length: 20 }, () => runResult({ detail: { text: 'x'.repeat(20_000) } }));
    const accepted = results.map((result) => spool.accept(result, 1).then(() => saved++));
    await until('the error', () => spool.state.writeError !== null);
    expect(spool.state).toMatchObject({ results: 20, writeError: expect.stringContaining('full') });
    expect(saved).toBe(0);
    expect(Array.from(spool.pending())).toHaveLength(20);
    expect(spool.body(results[3]!.resultId)).toContain('xxx');
    spool.settle([results[0]!.resultId]);
    expect(spool.state.results).toBe(19);
    rmSync(join(folder.path, 'ballast'));
    await Promise.all(accepted);
    expect(spool.state).toMatchObject({ results: 19, writeError: null });
    spool.close();
    const again = openSpool(folder.path, log);
    expect(again.state.results).toBe(19);
    again.close();
  } finally {
    execFileSync('umount', [folder.path]);
  }
});
