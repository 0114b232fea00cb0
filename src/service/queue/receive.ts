import type { ResultReceipt, RunResult, Timing } from '../../contract/index.ts';
import { codeOf, messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import type { Store } from '../ports.ts';
import { ensurePartitions, transact } from '../store/index.ts';
import { recordBatch, type Place, type Recorded } from './record.ts';

/** When to send again what could not be stored just now, ms. */
const RETRY_AFTER_MS = 2_000;
const CHECK_VIOLATION = '23514';

interface Receiver {
  store: Store;
  timing: Timing;
  log: Log;
}

/**
 * Stores a batch in one transaction. A row that the database refuses does not refuse its neighbours: the
 * batch is halved until it stands alone. A store that is away, or lacks the day's partition, makes
 * every receipt `retry`: whether such a commit happened is unknown, and a repetition is harmless.
 */
export async function receive(
  { store, timing, log }: Receiver,
  place: Place,
  results: readonly RunResult[],
): Promise<Recorded> {
  try {
    return await transact(store.db, (trx) => recordBatch(trx, place, results, timing));
  } catch (error) {
    const code = codeOf(error) ?? '';
    if (code === CHECK_VIOLATION && messageOf(error).includes('no partition')) {
      await ensurePartitions(store.db).catch((failure: unknown) =>
        log.warn({ reason: messageOf(failure) }, 'partitions could not be made'),
      );
      return nothing(results.map(retryLater('the day of this result is being prepared')));
    }
    if (!isDataError(code)) {
      log.warn({ reason: messageOf(error), results: results.length }, 'results could not be stored');
      return nothing(results.map(retryLater('the store is not available')));
    }
    if (results.length === 1) {
      const { resultId, runId } = results[0]!;
      log.error({ resultId, runId, reason: messageOf(error) }, 'a result was refused by the store');
      return nothing([{ resultId, status: 'rejected', reason: 'the store cannot hold it' }]);
    }
    return halves({ store, timing, log }, place, results);
  }
}

async function halves(receiver: Receiver, place: Place, results: readonly RunResult[]): Promise<Recorded> {
  const middle = Math.ceil(results.length / 2);
  const first = await receive(receiver, place, results.slice(0, middle));
  const second = await receive(receiver, place, results.slice(middle));
  return {
    receipts: [...first.receipts, ...second.receipts],
    touched: [...first.touched, ...second.touched],
    retries: [...first.retries, ...second.retries],
  };
}

const nothing = (receipts: ResultReceipt[]): Recorded => ({ receipts, touched: [], retries: [] });

const retryLater =
  (reason: string) =>
  ({ resultId }: RunResult): ResultReceipt => ({
    resultId,
    status: 'retry',
    afterMs: RETRY_AFTER_MS,
    reason,
  });

/** SQLSTATE classes of values that do not fit: the same rows would fail again. */
const isDataError = (code: string): boolean => /^(22|23)...$/.test(code);
