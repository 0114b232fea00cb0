import { pino } from 'pino';
import { expect, test } from 'vitest';
import type { TryReport } from '../../checks/execute.ts';
import type { Job, RunRef, RunResult } from '../../contract/index.ts';
import { derivedId, newId } from '../../kit/ids.ts';
import { ExecutorFault, type Recorder, type ReleaseReason } from '../ports.ts';
import { Dispatcher, LeaseClock } from './index.ts';
import { faultReport, withoutFiles } from './result.ts';

const quiet: Recorder = {
  tryStarted: () => {},
  tryFinished: () => {},
  tryAbandoned: () => {},
  declined: () => {},
  leaseLost: () => {},
  probeEnded: () => {},
  scriptEnded: () => {},
  messageIgnored: () => {},
  upload: () => {},
};

interface Bench {
  dispatcher: Dispatcher;
  /** Clocks in ms, moved by the test. */
  clock: { mono: number; wall: number };
  running: Map<number, (end: TryReport | Error) => void>;
  results: RunResult[];
  released: { runs: readonly RunRef[]; reason: ReleaseReason }[];
  renewals: number;
  room: { runs: number; short: string | null };
  /** One look at leases and clocks. */
  tick(): Promise<void>;
}

function bench(total = 4): Bench {
  const clock = { mono: 0, wall: 1e12 };
  const running: Bench['running'] = new Map();
  const results: RunResult[] = [];
  const released: Bench['released'] = [];
  const room = { runs: Infinity, short: null };
  const dispatcher = new Dispatcher({
    executor: {
      waiting: 0,
      run: (job, signal) =>
        new Promise((resolve, reject) => {
          running.set(job.runId, (end) => (end instanceof Error ? reject(end) : resolve(withoutFiles(end))));
          signal.addEventListener('abort', () => resolve(undefined));
        }),
    },
    sink: {
      accept: async (result) => void results.push(result),
      held: () => [],
    },
    clock: new LeaseClock(
      () => clock.mono,
      () => clock.wall,
    ),
    log: pino({ level: 'silent' }),
    recorder: quiet,
    total,
    places: { light: total, script: 1, browser: 0, suite: 0 },
    checkTypes: new Set(['URL', 'MULTI_STEP']),
    classOf: ({ checkType }) => (checkType === 'URL' ? 'light' : 'script'),
    admit: (_kind, wanted) => ({ runs: Math.min(wanted, b.room.runs), short: b.room.short }),
  });
  const b: Bench = {
    dispatcher,
    clock,
    running,
    results,
    released,
    renewals: 0,
    room,
    tick: async () => {
      dispatcher.look();
      await settled();
    },
  };
  dispatcher.attach({
    creditChanged: () => {},
    release: (runs, reason) => released.push({ runs, reason }),
    renewNow: () => b.renewals++,
  });
  return b;
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

let nextRun = 1;
const job = (more: Partial<Job> = {}): Job => ({
  runId: nextRun++,
  token: 1,
  attempt: 0,
  sequenceId: newId(),
  sessionId: newId(),
  lane: 1,
  checkId: newId(),
  checkType: 'URL',
  name: 'a check',
  location: 'here',
  proxyUrl: null,
  scheduledAt: '2026-01-01T00:00:00.000Z',
  timeoutMs: 30_000,
  spec: {},
  ...more,
});
const ref = ({ runId, token }: Job): RunRef => ({ runId, token });
const passed: TryReport = {
  ...faultReport('', '', 0),
  errors: [],
  flags: { ...faultReport('', '', 0).flags, hasErrors: false },
};

test('a finished run leaves one result under the id that its names make', async () => {
  const b = bench();
  const j = job();
  expect(b.dispatcher.offered([j], 300_000)).toEqual({ accepted: [ref(j)], declined: [] });
  expect(b.dispatcher.free('light')).toBe(3);
  b.running.get(j.runId)!(passed);
  await settled();
  expect(b.results).toHaveLength(1);
  expect(b.results[0]).toMatchObject({ ...ref(j), resultId: derivedId(j.sequenceId, 0, 1) });
  expect(b.dispatcher.free('light')).toBe(4);
});

test.each([
  [new ExecutorFault('PROBE_CRASHED', 'it ended'), 'PROBE_CRASHED'],
  [new TypeError('a bug of ours'), 'AGENT_FAULT'],
])('a fault of ours is an error of the run, never a failure of its target: %s', async (fault, code) => {
  const b = bench();
  const j = job();
  b.dispatcher.offered([j], 300_000);
  b.running.get(j.runId)!(fault);
  await settled();
  expect(b.results[0]).toMatchObject({
    flags: { hasErrors: true, hasFailures: false },
    errors: [{ code, network: false }],
  });
});

test('what a probe sends is not trusted: no report is a fault of ours', async () => {
  const b = bench();
  const j = job();
  b.dispatcher.offered([j], 300_000);
  b.running.get(j.runId)!({ ...passed, startedAt: 'yesterday' });
  await settled();
  expect(b.results[0]).toMatchObject({
    ...ref(j),
    flags: { hasErrors: true },
    errors: [{ code: 'REPORT_INVALID' }],
  });
});

test('a lease that nobody confirms is fenced at 95 % of its length, before the service gives the run away', async () => {
  const b = bench();
  const j = job({ timeoutMs: 1_000_000 });
  b.dispatcher.offered([j], 300_000);
  b.clock.wall = 1e12 + 284_999;
  b.clock.mono = 284_999;
  await b.tick();
  expect(b.dispatcher.running).toBe(1);
  b.clock.wall += 2;
  b.clock.mono += 2;
  await b.tick();
  expect(b.dispatcher.running).toBe(0);
  expect(b.released).toEqual([{ runs: [ref(j)], reason: 'fenced' }]);
  expect(b.results).toEqual([]);
});

test('a confirmation counts from when it was asked for', async () => {
  const b = bench();
  const j = job({ timeoutMs: 1_000_000 });
  b.dispatcher.offered([j], 1_000);
  b.clock.mono = 900;
  b.dispatcher.confirmed([{ ...ref(j), leaseMs: 1_000 }], 500);
  b.dispatcher.confirmed([{ ...ref(j), token: 2, leaseMs: 1_000_000 }], 900);
  b.clock.mono = 1_449;
  await b.tick();
  expect(b.dispatcher.running).toBe(1);
  b.clock.mono = 1_450;
  await b.tick();
  expect(b.dispatcher.running).toBe(0);
});

test('renewals do not prolong a run beyond its time and two minutes', async () => {
  const b = bench();
  const j = job({ timeoutMs: 10_000 });
  b.dispatcher.offered([j], 300_000);
  b.clock.wall += 130_001;
  b.clock.mono = 130_001;
  b.dispatcher.confirmed([{ ...ref(j), leaseMs: 300_000 }], 130_000);
  await b.tick();
  expect(b.results[0]).toMatchObject({ flags: { hasErrors: true }, errors: [{ code: 'RUN_OVERDUE' }] });
});

test('after a jump of the wall clock the leases are asked for; confirmed, nothing is lost', async () => {
  const b = bench();
  b.dispatcher.offered([job()], 300_000);
  b.clock.wall += 3_600_000;
  b.clock.mono += 1_000;
  await b.tick();
  expect(b.renewals).toBe(1);
  expect(b.dispatcher.free('light')).toBe(0);
  b.dispatcher.confirmed([], b.dispatcher.now());
  expect(b.dispatcher.free('light')).toBe(3);
  b.clock.mono += 60_000;
  b.clock.wall += 60_000;
  await b.tick();
  expect(b.dispatcher.running).toBe(1);
});

test('after a jump that nobody confirms the time counts as passed: the machine slept', async () => {
  const b = bench();
  b.dispatcher.offered([job()], 300_000);
  b.clock.wall += 3_600_000;
  b.clock.mono += 1_000;
  await b.tick();
  b.clock.wall += 10_001;
  b.clock.mono += 10_001;
  await b.tick();
  expect(b.dispatcher.running).toBe(0);
  expect(b.results).toEqual([]);
});

test('a wall clock that is set back changes nothing', async () => {
  const b = bench();
  b.dispatcher.offered([job()], 300_000);
  b.clock.wall -= 3_600_000;
  b.clock.mono += 1_000;
  await b.tick();
  expect(b.dispatcher.running).toBe(1);
  expect(b.renewals).toBe(0);
});

test('what stands against work is said, and the offer declined with it', () => {
  const b = bench();
  b.room = { runs: 0, short: 'spool' };
  expect(b.dispatcher.blocked('light')).toBe('spool');
  const j = job();
  expect(b.dispatcher.offered([j], 1000).declined).toEqual([{ ...ref(j), reason: 'spool_full' }]);
  b.room = { runs: 0, short: 'memory' };
  expect(b.dispatcher.offered([job()], 1000).declined).toMatchObject([{ reason: 'no_capacity' }]);
});

test('drain waits for what runs; giving back ends it without a result', async () => {
  const b = bench();
  const [one, two] = [job(), job()];
  b.dispatcher.offered([one, two], 300_000);
  let drained = false;
  void b.dispatcher.drain().then(() => (drained = true));
  b.running.get(one.runId)!(passed);
  await settled();
  expect(drained).toBe(false);
  expect(b.dispatcher.offered([job()], 1000).declined).toMatchObject([{ reason: 'draining' }]);
  b.dispatcher.giveBack('interrupted');
  await settled();
  expect(drained).toBe(true);
  expect(b.released).toEqual([{ runs: [ref(two)], reason: 'interrupted' }]);
  expect(b.results).toHaveLength(1);
});

test('the first of cancelled and lost decides', async () => {
  const b = bench();
  const [one, two] = [job(), job()];
  b.dispatcher.offered([one, two], 300_000);
  b.dispatcher.cancelled([ref(one)]);
  b.dispatcher.lost([ref(one)], 'gone');
  b.dispatcher.lost([ref(two)], 'gone');
  b.dispatcher.cancelled([ref(two)]);
  await settled();
  expect(b.results).toMatchObject([{ ...ref(one), flags: { isCancelled: true } }]);
});

test('an inventory never exceeds what the wire allows', () => {
  const b = bench(6000);
  b.dispatcher.offered(
    Array.from({ length: 6000 }, () => job()),
    300_000,
  );
  expect(b.dispatcher.held()).toHaveLength(5000);
});
