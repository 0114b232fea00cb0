import { jitter, sleep } from '../../kit/clock.ts';
import { messageOf } from '../../kit/errors.ts';
import type { ServiceContext } from '../ports.ts';
import { artifacts, bundles, runLogs } from '../store/index.ts';
import { bundleBlob } from './bundle-blob.ts';

const SWEEP_MS = 1_800_000;
const DAY_MS = 86_400_000;
/** An agent keeps what it could not send for a day. */
const IDLE_MS = DAY_MS;
/** No upload of an archive takes so long: the server ends each request after a quarter of this. */
const UPLOAD_MS = 3_600_000;

export interface Janitor {
  /** Sweeps until the signal aborts. */
  loop(signal: AbortSignal): Promise<void>;
  /** Once. */
  sweep(): Promise<void>;
}

/**
 * Removes uploads that nobody goes on with, archives that nothing uses, and the days whose results are gone.
 * Every replica of the service may do it.
 */
export function createJanitor(
  { store, blobs, log }: Pick<ServiceContext, 'store' | 'blobs' | 'log'>,
  retentionDays: number,
): Janitor {
  const sweep = async (): Promise<void> => {
    const reason = 'the agent did not send it within a day';
    for (const row of await artifacts.giveUpIdle(store.db, IDLE_MS, reason)) {
      await blobs.remove({ id: row.id, day: row.scheduled_at, size: row.size });
    }
    const unused = await bundles.removeUnused(store.db, DAY_MS);
    if (unused > 0) log.info({ bundles: unused }, 'unused archives of suites removed');
    for (const blobId of await bundles.looseBlobs(store.db, UPLOAD_MS)) {
      await blobs.remove(bundleBlob({ blob_id: blobId, size: 0 }));
      await bundles.forgetLoose(store.db, blobId);
    }
    await runLogs.removeOld(store.db);
    const days = await blobs.removeBefore(new Date(Date.now() - retentionDays * DAY_MS));
    if (days > 0) log.info({ days }, 'artifacts of old results removed');
  };
  return {
    sweep,
    loop: async (signal) => {
      while (!signal.aborted) {
        await sleep(jitter(SWEEP_MS, 0.5), signal).catch(() => undefined);
        if (signal.aborted) return;
        await sweep().catch((error: unknown) => {
          log.warn({ reason: messageOf(error) }, 'upkeep of artifacts failed');
        });
      }
    },
  };
}
