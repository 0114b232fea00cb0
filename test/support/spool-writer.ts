import { pino } from 'pino';
import { openSpool } from '../../src/agent/spool/index.ts';
import { runResult } from './results.ts';

/** Fills the spool in argv[2] for ever and prints the id of each result once it is accepted. */
const spool = openSpool(process.argv[2] ?? '', pino({ level: 'silent' }));
for (;;) {
  await Promise.all(
    Array.from({ length: 5 }, async () => {
      const result = runResult();
      await spool.accept(result, 1);
      process.stdout.write(`${result.resultId}\n`);
    }),
  );
}
