import { onTestFinished } from 'vitest';
import { EgressProxy } from '../../../src/agent/egress/index.ts';
import { findRuntimes, type Runtime } from '../../../src/agent/runtimes/index.ts';
import { ScriptRoom } from '../../../src/agent/scripts/index.ts';
import type { TryReport } from '../../../src/checks/execute.ts';
import type { PhaseAnswer } from '../../../src/checks/script-hooks.ts';
import { createLog } from '../../../src/kit/log.ts';
import { standInJob, temporaryFolder } from '../../support/agent.ts';
import { scriptJob, STAND_IN_RUNTIME } from '../../support/scripts.ts';

/** Those that are installed; without any this Node. */
export const RUNTIMES: readonly Runtime[] = findRuntimes().length > 0 ? findRuntimes() : [STAND_IN_RUNTIME];

/** Why no Playwright runs here. */
export const lacksRuntime = findRuntimes().length > 0 ? undefined : 'no runtime is installed';

/** What a run printed, and what was noted beside it. */
export const logOf = ({ detail }: TryReport): string[] =>
  Object.values(detail as Record<string, { jobLog: { msg: string }[] }>).flatMap(({ jobLog }) =>
    jobLog.map(({ msg }) => msg),
  );

export interface Policy {
  blocked?: string;
  allowed?: string;
  /** Name servers instead of this machine's. */
  servers?: readonly string[];
  /** Of the location. */
  proxyUrl?: string;
  noProxy?: string;
}

const log = createLog({ level: 'silent', format: 'json', name: 'egress' });

/** An egress process behind its walls, ended with the test. */
export function startEgress({ blocked = '', allowed = '', servers, noProxy = '' }: Policy = {}): EgressProxy {
  const egress = new EgressProxy({
    setup: {
      useOsResolver: false,
      policy: { blocked, allowed },
      noProxy,
      ...(servers === undefined ? {} : { servers }),
    },
    log,
    onLost: () => {},
  });
  onTestFinished(() => egress.stop());
  return egress;
}

export interface Scripts {
  egress: EgressProxy;
  /** Runs a browser or multistep check. */
  check: (checkType: 'BROWSER' | 'MULTI_STEP', script: string) => Promise<TryReport>;
  /** Runs a setup script in a process of its own, behind all walls. What it prints comes back as one text. */
  run: (script: string, env?: Record<string, string>) => Promise<{ printed: string; answer: PhaseAnswer }>;
}

export function startScripts(policy: Policy = {}, runtime: Runtime = RUNTIMES[0]!): Scripts {
  const egress = startEgress(policy);
  const { proxyUrl = null } = policy;
  const folder = temporaryFolder();
  const room = new ScriptRoom({
    dataDir: folder.path,
    places: { browser: 1, multistep: 1, api: 1 },
    memoryOf: () => 1536 * 1024 * 1024,
    mayWarm: () => false,
    egress,
    extraCaCerts: undefined,
    ownSecrets: [],
    folderOf: () => folder.path,
    log,
    events: { onChange: () => {}, onEnded: () => {} },
    findRuntimes: () => [runtime],
  });
  onTestFinished(async () => {
    await room.stop();
    folder[Symbol.dispose]();
  });
  const request = { method: 'GET', url: 'http://shop.test/', body: '', headers: {}, queryParameters: {} };
  return {
    egress,
    check: async (checkType, script) => {
      const job = scriptJob(checkType, script, {}, { proxyUrl });
      const finished = await room.run(job, new AbortController().signal);
      return finished!.report;
    },
    run: async (script, env = {}) => {
      const environmentVariables = Object.entries(env).map(([key, value]) => ({ key, value }));
      const spec = {
        request: { url: request.url, assertions: [] },
        localSetupScript: script,
        environmentVariables,
      };
      const job = standInJob(spec, { checkType: 'API', name: 'egress', timeoutMs: 60_000, proxyUrl });
      let answer: PhaseAnswer | undefined;
      await room.withApiScripts(job, new AbortController().signal, async (scripts) => {
        answer = await scripts.run({ phase: 'setup', request, response: null, env: null });
        return undefined;
      });
      const printed = answer!.log.map(({ msg, level }) => (level === 'INFO' ? msg : `${level} ${msg}`));
      return { printed: printed.join('\n'), answer: answer! };
    },
  };
}
