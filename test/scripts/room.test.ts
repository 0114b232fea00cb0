import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, type TestContext } from 'vitest';
import type { AgentOptions } from '../../src/agent/index.ts';
import type { Runtime } from '../../src/agent/runtimes/index.ts';
import type { Job, RunResult } from '../../src/contract/index.ts';
import { startTestAgent, temporaryFolder, type TestAgent } from '../support/agent.ts';
import { startFakeService, until, type FakeService } from '../support/fake-service.ts';
import { DONE, STAND_IN_RUNTIME, STAND_IN_SCRIPT, stepsJob } from '../support/scripts.ts';

/** What the agent makes of script processes, whatever they do: a stand-in says and does what a test wants. */

interface Bench extends AsyncDisposable {
  service: FakeService;
  agent: TestAgent;
  dataDir: string;
  run(job: Job): Promise<RunResult>;
}

async function startBench(options: Partial<AgentOptions> = {}): Promise<Bench> {
  const service = await startFakeService();
  const folder = temporaryFolder();
  const agent = await startTestAgent(
    service,
    { AGENT_DATA_DIR: folder.path },
    { scriptEntry: STAND_IN_SCRIPT, findRuntimes: () => [STAND_IN_RUNTIME], ...options },
  );
  await agent.ready;
  return {
    service,
    agent,
    dataDir: folder.path,
    run: async (job) => {
      service.offer(job);
      const ended = service.resultOf(job);
      // A busy machine says that it has no room yet; a service would try again.
      const again = setInterval(() => {
        if (isDeclined(service, job)) service.offer(job);
      }, 1_000);
      return ended.finally(() => clearInterval(again));
    },
    [Symbol.asyncDispose]: async () => {
      await agent[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}

const isDeclined = (service: FakeService, { runId }: Job): boolean =>
  service.said.some(
    (message) => message.t === 'decline' && message.d.runs.some((run) => run.runId === runId),
  );

/** An agent of one test's own. */
async function bench({ onTestFinished }: TestContext, options: Partial<AgentOptions> = {}): Promise<Bench> {
  const own = await startBench(options);
  onTestFinished(() => own[Symbol.asyncDispose]());
  return own;
}

interface Detail {
  errors: { message: string }[];
  jobLog: { time: number; msg: string; level: string }[];
  jobAssets: string[];
  runtimeVersion: string;
  seen: { files: string[]; script: string; env: Record<string, string>; own: string[] };
}
const detailOf = (result: RunResult): Detail => result.detail['multiStepCheckResult'] as Detail;
const logOf = (result: RunResult): string[] => detailOf(result).jobLog.map(({ msg }) => msg);

interface Health {
  scripts: {
    blocked: string | null;
    runtimes: string[];
    warm: Record<string, number>;
    running: { pid: number }[];
  };
}
const healthOf = async ({ agent }: Bench): Promise<Health> =>
  JSON.parse((await agent.health('/health')).text) as Health;

/** Folders of jobs that are under way, or were not removed. */
const jobFolders = ({ dataDir }: Bench): string[] =>
  readdirSync(join(dataDir, 'work')).filter((name) => existsSync(join(dataDir, 'work', name, 'src')));

/** Processes that were started by `pid`, and by those. */
function processesUnder(pid: number): number[] {
  const children = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((each) => parentOf(each) === pid);
  return children.flatMap((child) => [child, ...processesUnder(child)]);
}

/** Undefined for what has ended, whether or not somebody has asked about it. */
function parentOf(pid: number): number | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return /^State:\s+Z/m.test(status) ? undefined : Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]);
  } catch {
    return undefined;
  }
}

const lives = (pid: number): boolean => parentOf(pid) !== undefined;

/** The agent of all tests that leave it as it was. */
let b: Bench;
beforeAll(async () => {
  b = await startBench();
});
afterAll(() => b[Symbol.asyncDispose]());

describe('a run', () => {
  test('has its verdict, its log and its times from what its process says', async () => {
    const result = await b.run(
      stepsJob([
        { send: { t: 'log', at: 1000, level: 'warn', text: 'half way' } },
        { print: 'printed\n' },
        { send: { t: 'findings', detail: { requests: [{ url: 'http://x/' }] }, files: [] } },
        { sleep: 30 },
        { send: { ...DONE, endTime: Date.now() + 1e9, degraded: ['slow'] } },
      ]),
    );
    expect(result.flags).toMatchObject({ isDegraded: true, hasFailures: false, hasErrors: false });
    expect(result.responseTimeMs).toBeGreaterThanOrEqual(25);
    expect(result.responseTimeMs).toBeLessThan(20_000);
    expect(result.detail['multiStepCheckResult']).toMatchObject({
      requests: [{ url: 'http://x/' }],
      errors: [],
      runtimeVersion: '2026.04',
      jobLog: [
        { time: 1000, msg: 'half way', level: 'WARN' },
        { msg: 'printed', level: 'INFO' },
      ],
      jobAssets: [],
      playwrightTestTraces: [],
    });
  });

  test('sees its files and its variables and nothing of the agent', async () => {
    const job = stepsJob(
      [{ look: true }, { send: DONE }],
      { lane: 1, accountId: crypto.randomUUID() },
      {
        script: 'the script',
        scriptPath: 'checks/a.spec.ts',
        dependencies: [{ path: 'checks/lib/b.ts', content: 'b' }],
        environmentVariables: [{ key: 'CHECK_NAME', value: 'mine' }],
      },
    );
    const { seen } = detailOf(await b.run(job));
    expect(seen.script).toBe('the script');
    expect(seen.files.toSorted()).toEqual([
      'src',
      'src/checks',
      'src/checks/a.spec.ts',
      'src/checks/lib',
      'src/checks/lib/b.ts',
    ]);
    expect(seen.env).toMatchObject({
      ACCOUNT_ID: job.accountId,
      CHECK_ID: job.checkId,
      CHECK_NAME: 'mine',
      CHECK_TYPE: 'MULTI_STEP',
      CHECK_RUN_ID: String(job.runId),
      REGION: 'here',
      RUNTIME_VERSION: '2026.04',
    });
    expect(seen.own).not.toContain('API_KEY');
    expect(seen.own).not.toContain('AGENT_SERVICE_URL');
  });

  test('leaves no secret in its result, one that appeared while it ran included', async () => {
    const steps = [
      {
        send: { t: 'log', at: 1, level: 'info', text: 'password hunter-seven, token runtime-made' },
      } as const,
      { send: { t: 'secret', value: 'runtime-made' } },
      { print: 'aHVudGVyLXNldmVu runtime-made\n' },
      { send: { ...DONE, verdict: 'failed', errors: [{ message: 'hunter-seven was wrong' }] } },
    ];
    const environmentVariables = [{ key: 'PASSWORD', value: 'hunter-seven', secret: true }];
    const result = await b.run(stepsJob(steps, {}, { environmentVariables }));
    expect(logOf(result)[0]).toMatch(/^password \S+, token \S+$/);
    expect(JSON.stringify(result)).not.toMatch(/hunter-seven|runtime-made|aHVudGVyLXNldmVu/);
  });

  test('that should fail passes by failing', async () => {
    const failing = [{ send: { ...DONE, verdict: 'failed', errors: [{ message: 'down' }] } }];
    const [meant, unmeant] = await Promise.all([
      b.run(stepsJob(failing, {}, { shouldFail: true })),
      b.run(stepsJob([{ send: DONE }], {}, { shouldFail: true })),
    ]);
    expect(meant.flags.hasFailures).toBe(false);
    expect(detailOf(meant).errors).toEqual([{ message: 'down' }]);
    expect(unmeant.errors[0]).toMatchObject({ code: 'SHOULD_FAIL' });
  });
});

test('a time that ran out while this machine stood still is measured again, with no other job beside it', async (context) => {
  const own = await bench(context);
  const late = { ...DONE, verdict: 'failed', errors: [{ message: 'Timeout 500ms exceeded.' }] };
  const judged = own.run(stepsJob([{ sleep: 700 }, { send: late }]));
  await until('the job runs', async () => (await healthOf(own)).scripts.running.length > 0);
  // The agent lives in this process: nothing here gets a turn for that long.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600);
  expect((await judged).errors).toEqual([expect.objectContaining({ code: 'SCRIPT_ERROR' })]);
});

describe('what a process may do', () => {
  test.each([
    ['writes to its channel what is no message', [{ raw: 'hello\n' }], 'CHANNEL', /file descriptor 3/],
    [
      'claims what no message has',
      [{ send: { ...DONE, verdict: 'splendid' } }],
      'CHANNEL',
      /file descriptor 3/,
    ],
    ['never ends its line', [{ raw: 'x'.repeat(1 << 16), times: 200 }], 'CHANNEL', /line too long/],
    ['ends by itself', [{ exit: 7 }], 'PROCESS_EXIT', /exit code 7/],
    [
      'says that it leaves',
      [
        {
          send: {
            t: 'leaving',
            call: 'process.exit(3)',
            code: 3,
            error: { message: 'left', file: '/script.js', line: 2 },
          },
        },
        { exit: 3 },
      ],
      'PROCESS_EXIT',
      /ended its process with process\.exit\(3\) \(\/script\.js:2\)/,
    ],
  ] as const)('%s: a failure in one sentence', async (_what, steps, code, message) => {
    const result = await b.run(stepsJob(steps as Parameters<typeof stepsJob>[0]));
    expect(result.errors).toEqual([{ code, message: expect.stringMatching(message), network: false }]);
    expect(result.flags).toMatchObject({ hasFailures: true, hasErrors: false });
    // The next one is served as if nothing had been.
    expect((await b.run(stepsJob([{ send: DONE }]))).flags.hasFailures).toBe(false);
  });

  test('goes on for ever: a failure in one sentence', async () => {
    const result = await b.run(stepsJob([{ sleep: 1e6 }], { timeoutMs: 200 }));
    const message = expect.stringMatching(/not finished within 0\.2 s/);
    expect(result.errors).toEqual([{ code: 'TIMEOUT', message, network: false }]);
    expect((await b.run(stepsJob([{ send: DONE }]))).flags.hasFailures).toBe(false);
  });

  test('prints 256 MB: the log is cut, the run goes on', async () => {
    const line = `${'z'.repeat(1023)}\n`;
    const result = await b.run(
      stepsJob([{ print: line.repeat(64), times: 4096 }, { send: DONE }], { timeoutMs: 60_000 }),
    );
    expect(result.flags.hasFailures).toBe(false);
    expect(JSON.stringify(detailOf(result).jobLog).length).toBeLessThan(400_000);
    expect(logOf(result).at(-1)).toMatch(/^\d+ bytes more were left out/);
  });
});

describe('two runs at once', () => {
  test('have folders of their own', async () => {
    const looking = (name: string): Job =>
      stepsJob([{ look: true }, { sleep: 200 }, { send: DONE }], {}, { script: name });
    const found = await Promise.all([b.run(looking('first')), b.run(looking('second'))]);
    expect(found.map((result) => detailOf(result).seen.script)).toEqual(['first', 'second']);
  });
});

describe('a run that takes too much', () => {
  test('is ended, and said what of', async (context) => {
    const own = await bench(context);
    const eaten = await own.run(stepsJob([{ fork: 6, eat: 150 }, { sleep: 1e6 }]));
    expect(eaten.errors[0]).toMatchObject({
      code: 'MEMORY_LIMIT',
      message: expect.stringContaining('768 MB'),
    });
    const filled = await own.run(stepsJob([{ print: 'so far\n' }, { fill: 300 }, { sleep: 1e6 }]));
    expect(filled.errors[0]).toMatchObject({
      code: 'DISK_LIMIT',
      message: expect.stringContaining('200 MB'),
    });
    expect(logOf(filled)).toEqual(['so far']);
    expect((await healthOf(own)).scripts.running).toEqual([]);
    expect(jobFolders(own).length).toBeLessThanOrEqual(3);
    expect((await own.agent.health('/metrics')).text).toContain(
      'vedette_agent_scripts_ended_total{kind="multistep",cause="memory"} 1',
    );
  });
});

describe('warm processes', () => {
  test('serve one job each and are replaced', async (context) => {
    const own = await bench(context);
    await until('spares', async () => (await healthOf(own)).scripts.warm['multistep'] === 1);
    const folders = new Set<string>();
    for (let i = 0; i < 3; i++) {
      await own.run(stepsJob([{ send: DONE }]));
      for (const name of jobFolders(own)) folders.add(name);
    }
    expect(folders.size).toBeGreaterThan(3);
    await until('one spare of each kind', async () => {
      const { warm } = (await healthOf(own)).scripts;
      return warm['browser'] === 1 && warm['multistep'] === 1 && warm['api'] === 1;
    });
    expect(jobFolders(own)).toHaveLength(3);
  });
});

describe('the end of a run from outside', () => {
  const daemons = [{ fork: 3 }, { sleep: 1e6 }];
  const running = (own: Bench): Promise<{ pid: number }> =>
    until('a running job', async () => (await healthOf(own)).scripts.running[0]);

  test('a cancelled run ends with everything that it started', async () => {
    const job = stepsJob(daemons);
    b.service.offer(job);
    const { pid } = await running(b);
    await until('its processes', () => processesUnder(pid).length === 3);
    const started = processesUnder(pid);
    const result = await b.service.cancel(job);
    expect(result.flags).toMatchObject({ isCancelled: true, hasFailures: false });
    expect([pid, ...started].filter(lives)).toEqual([]);
    expect((await healthOf(b)).scripts.running).toEqual([]);
  });

  test('a drain waits for it', async (context) => {
    const own = await bench(context);
    const job = stepsJob([{ sleep: 700 }, { send: DONE }]);
    own.service.offer(job);
    await running(own);
    await own.agent.drain();
    expect((await own.service.resultOf(job)).flags.hasFailures).toBe(false);
    expect(jobFolders(own)).toEqual([]);
  });

  test('an agent that gives its runs back leaves neither processes nor files', async (context) => {
    const own = await bench(context);
    own.service.offer(stepsJob(daemons));
    const { pid } = await running(own);
    own.agent.kill();
    await own.agent.done;
    await own.service.heard('release');
    expect(lives(pid)).toBe(false);
    expect(jobFolders(own)).toEqual([]);
  });
});

describe('what cannot run here', () => {
  test('a runtime that is not installed is our error, with the way to get it', async () => {
    const result = await b.run(stepsJob([{ send: DONE }], {}, { runtimeId: '2022.10' }));
    expect(result.flags).toMatchObject({ hasErrors: true, hasFailures: false });
    expect(result.errors).toEqual([
      {
        code: 'RUNTIME_MISSING',
        message:
          'runtime 2022.10 is not installed on this agent; installed: 2026.04; `vedette runtime install 2022.10` installs it',
        network: false,
      },
    ]);
  });

  test('credit comes with the first runtime, without a new start', async (context) => {
    const runtimes: Runtime[] = [];
    const own = await bench(context, { findRuntimes: () => [...runtimes], runtimesEveryMs: 50 });
    const { capabilities } = await own.service.heard('hello');
    expect(capabilities.checkTypes).toEqual(expect.arrayContaining(['BROWSER', 'MULTI_STEP']));
    const none = await own.service.heard('ready');
    expect(none.freeByClass).toEqual({ script: 0, browser: 0, suite: expect.any(Number) });
    // They bring what they run with.
    expect(none.freeByClass!.suite).toBeGreaterThan(0);
    expect((await healthOf(own)).scripts.blocked).toMatch(
      /^no runtime is installed; `vedette runtime install`/,
    );
    own.service.offer(stepsJob([{ send: DONE }]));
    expect((await own.service.heard('decline')).runs[0]).toMatchObject({ reason: 'no_capacity' });

    runtimes.push(STAND_IN_RUNTIME);
    await own.service.heard('ready', ({ freeByClass }) => (freeByClass?.browser ?? 0) > 0);
    expect((await own.run(stepsJob([{ send: DONE }]))).flags.hasFailures).toBe(false);
  });

  test('processes that do not start are our error, with their last words', async (context) => {
    const own = await bench(context, {
      findRuntimes: () => [{ ...STAND_IN_RUNTIME, flags: ['--no-such-flag'] }],
    });
    await until('the reason', async () => (await healthOf(own)).scripts.blocked ?? undefined);
    expect((await healthOf(own)).scripts.blocked).toContain('bad option: --no-such-flag');
  });
});
