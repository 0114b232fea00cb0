import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { EgressProxy } from '../src/agent/egress/index.ts';
import { ScriptRoom, type ScriptKind } from '../src/agent/scripts/index.ts';
import type { Job } from '../src/contract/index.ts';
import { newId } from '../src/kit/ids.ts';

/**
 * The rooms of an agent that run user code, in a process of their own. Arguments: `warm` or `cold`, the kind
 * of process, the script, the address that it visits. Each line on stdin runs it once; the answer is a line
 * of JSON. `ready` is said first, and after each run when the next one would begin at once.
 */
export interface RunFigures {
  /** From the job to its result, ms. */
  ms: number;
  passed: boolean;
  message: string;
}

const [warmth = 'cold', kind = 'browser', scriptFile = '', siteUrl = ''] = process.argv.slice(2);
const script = readFileSync(scriptFile, 'utf8');
const dataDir = mkdtempSync(join(tmpdir(), 'vedette-bench-'));
const log = pino({ level: 'warn' }, pino.destination(2));
const egress = new EgressProxy({
  setup: { useOsResolver: false, policy: { blocked: '', allowed: '' } },
  log,
  onLost: () => {},
});
const places: Record<ScriptKind, number> = { browser: 0, multistep: 0, api: 0, [kind]: 1 };
const room = new ScriptRoom({
  dataDir,
  places,
  memoryOf: () => 2 * 1024 ** 3,
  mayWarm: () => warmth === 'warm',
  egress,
  extraCaCerts: undefined,
  ownSecrets: [],
  folderOf: (resultId) => join(dataDir, resultId),
  log,
  events: { onChange: () => {}, onEnded: () => {} },
  // As images run it.
  entry: new URL('../dist/agent/scripts/child/main.js', import.meta.url),
});

const jobOf = (): Job => ({
  runId: 1,
  token: 1,
  attempt: 0,
  sequenceId: newId(),
  sessionId: newId(),
  lane: 10,
  checkId: newId(),
  checkType: kind === 'browser' ? 'BROWSER' : 'MULTI_STEP',
  name: 'bench',
  location: 'here',
  proxyUrl: null,
  scheduledAt: new Date().toISOString(),
  timeoutMs: 60_000,
  runSource: 'SCHEDULER',
  spec: { script, environmentVariables: [{ key: 'SITE_URL', value: siteUrl }] },
});

async function settle(): Promise<void> {
  if (warmth === 'warm') {
    while (Object.values(room.spares).every((count) => count === 0)) await delay(10);
    // The browser of a spare starts when the spare is ready.
    await delay(700);
  }
  console.log('ready');
}

const stop = new AbortController();
const kept = room.keep(stop.signal);
await settle();
for await (const line of createInterface({ input: process.stdin })) {
  if (line === 'end') break;
  const begun = performance.now();
  const finished = await room.run(jobOf(), stop.signal);
  const { flags, errors } = finished!.report;
  const figures: RunFigures = {
    ms: performance.now() - begun,
    passed: !flags.hasFailures && !flags.hasErrors,
    message: errors.map(({ message }) => message).join('; '),
  };
  console.log(JSON.stringify(figures));
  await settle();
}
stop.abort();
await kept;
await egress.stop();
rmSync(dataDir, { recursive: true, force: true });
