import { join } from 'node:path';
import { findRuntimes } from '../../src/agent/runtimes/index.ts';
import { EgressProxy } from '../../src/agent/egress/index.ts';
import type { Finished } from '../../src/agent/ports.ts';
import { resultIdOf } from '../../src/agent/scripts/index.ts';
import { SuiteRoom, type SuiteRoomOptions } from '../../src/agent/suites/index.ts';
import type { SuiteResult } from '../../src/checks/index.ts';
import type { Job } from '../../src/contract/index.ts';
import { createLog } from '../../src/kit/log.ts';

const GB = 1024 ** 3;
const log = createLog({ level: 'silent', format: 'json', name: 'suites' });

export interface TestRoom extends AsyncDisposable {
  run(job: Job): Promise<{ result: SuiteResult; flags: Finished['report']['flags'] }>;
}

/**
 * The room of an agent that runs suites, without the rest of the agent: as many at once as there are calls.
 *
 * @param bundles archives by their SHA-256
 */
export async function startSuiteRoom(
  dataDir: string,
  bundles: ReadonlyMap<string, Buffer>,
  more: Partial<SuiteRoomOptions> = {},
): Promise<TestRoom> {
  const setup = { useOsResolver: false, policy: { blocked: '', allowed: '' } };
  const egress = new EgressProxy({ setup, log, onLost: () => {} });
  const room = new SuiteRoom({
    dataDir,
    memoryBytes: 2 * GB,
    egress,
    extraCaCerts: undefined,
    browserAuthorities: () => undefined,
    ownSecrets: [],
    network: { httpsProxy: undefined, httpProxy: undefined, noProxy: '' },
    packageVariables: {},
    runsInstallScripts: true,
    dependencyCache: { isOff: false, maxBytes: GB },
    bundleCacheBytes: GB,
    runtimes: findRuntimes,
    bundles: {
      download: async (path, take) => {
        const bundle = bundles.get(path.split('/').at(-1)!);
        if (bundle !== undefined) await take(bundle);
        return { status: bundle === undefined ? 404 : 200 };
      },
    },
    postLog: () => Promise.resolve({ status: 204 }),
    folderOf: (resultId) => join(dataDir, 'results', resultId),
    log,
    ...more,
  });
  const stop = new AbortController();
  const kept = room.keep(stop.signal);
  return {
    run: async (job) => {
      const finished = await room.run(job, new AbortController().signal);
      if (finished === undefined) throw new Error(`the run ${resultIdOf(job)} was given up`);
      const { flags, detail } = finished.report;
      return { result: detail['playwrightCheckResult'] as SuiteResult, flags };
    },
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await kept;
      await egress.stop();
    },
  };
}
