/**
 * A process that stores results until it is killed: `node writer.ts <dataDir> [<databaseUrl>]`. Prints
 * `ready`, then the id of each result once its receipt says that it is stored.
 */
import { exit, stdout } from 'node:process';
import { DEFAULT_TIMING } from '../../src/contract/index.ts';
import { FatalError } from '../../src/kit/errors.ts';
import { newId } from '../../src/kit/ids.ts';
import { createLog } from '../../src/kit/log.ts';
import { createQueue } from '../../src/service/queue/index.ts';
import { openStore } from '../../src/service/store/index.ts';
import { resultOf } from './fixture.ts';

const BATCH = 10;
const [dataDir = '', databaseUrl] = process.argv.slice(2);
const log = createLog({ level: 'silent', format: 'json', name: 'writer' });

async function write(): Promise<never> {
  const store = await openStore({ dataDir, databaseUrl, log });
  const queue = createQueue({ store, timing: DEFAULT_TIMING, log });
  const place = { accountId: newId(), slug: 'here' };
  const agent = { agentId: newId(), accountId: place.accountId, location: 'here', checkTypes: ['URL'] };
  stdout.write('ready\n');
  for (;;) {
    const sessions = Array.from({ length: BATCH }, () => ({
      accountId: place.accountId,
      checkId: newId(),
      checkType: 'URL',
      name: 'a check',
      runSource: 'SCHEDULER' as const,
      lane: 1 as const,
      scheduledAt: new Date(),
      locations: ['here'],
      definition: { name: 'a check', retryStrategy: null },
      jobClass: 'light' as const,
      timeoutMs: 1_000,
    }));
    await queue.start(sessions);
    const jobs = await queue.claim(agent, 'light', BATCH);
    await queue.accept(agent.agentId, jobs);
    const receipts = await queue.record(
      place,
      jobs.map((job) => resultOf(job)),
    );
    const stored = receipts.filter(({ status }) => status === 'stored');
    if (stored.length > 0) stdout.write(`${stored.map(({ resultId }) => resultId).join('\n')}\n`);
  }
}

try {
  await write();
} catch (error) {
  if (!(error instanceof FatalError)) throw error;
  process.stderr.write(`${error.message}\n`);
  exit(error.exitCode);
}
