import type { SuiteError, SuiteMetrics, SuiteResult, SuiteTest } from '../../checks/index.ts';
import type { OpenGate } from '../egress/index.ts';
import type { JobLimits } from '../sandbox/index.ts';
import { FULL_DISK } from './full-disk.ts';
import type { EarlyEnd } from './process.ts';
import type { Ended } from './protocol.ts';
import { lastLines } from './words.ts';

/** Of a run: which of its parts went wrong. */
export type Stage = NonNullable<SuiteResult['error']>['stage'];

/** What ended a suite before, or beside, its tests. */
export interface Cut {
  stage: Stage;
  code: string;
  message: string;
  /** This agent is at fault, and nothing is known about the target. */
  isOurs: boolean;
}

export interface Verdict {
  verdict: 'passed' | 'degraded' | 'failed' | 'error' | 'cancelled';
  cut: Cut | null;
}

export interface Facts {
  tests: readonly SuiteTest[];
  metrics: SuiteMetrics;
  loose: readonly SuiteError[];
  hasBegun: boolean;
  /** As Playwright says it. */
  status: string | undefined;
  ended: Ended | undefined;
  /** What the test command printed last. */
  printed: string;
  /** Of everything that was printed. */
  printedBytes: number;
  degraded: readonly string[];
  /** Every error of a failed test is of a soft assertion. */
  onlySoft: boolean;
  /** Of the tests' way to their targets; null where they go there directly. */
  gate: Pick<OpenGate, 'refusals' | 'wasInterrupted'> | null;
  /** The disk has no room left. */
  isFull: boolean;
  /** Others kept the processors from this test while it ran. */
  wasStarved: (test: SuiteTest) => boolean;
}

export const problem = (stage: Stage, code: string, message: string): Cut => ({
  stage,
  code,
  message,
  isOurs: false,
});
export const ours = (stage: Stage, code: string, message: string): Cut => ({
  stage,
  code,
  message,
  isOurs: true,
});

/** What the tests say; whether anything was amiss beside them. */
export function judgeTests(facts: Facts): Verdict {
  const cut = cutOf(facts);
  const { failed, interrupted } = facts.metrics;
  const hasFailed = failed + interrupted > 0;
  const fault = cut !== null || hasFailed ? faultOf(facts) : null;
  if (fault !== null) return { verdict: 'error', cut: fault };
  if (cut !== null) return { verdict: cut.isOurs ? 'error' : 'failed', cut };
  const isMarked = facts.degraded.length > 0;
  if (hasFailed) return { verdict: isMarked && facts.onlySoft ? 'degraded' : 'failed', cut: null };
  return { verdict: isMarked ? 'degraded' : 'passed', cut: null };
}

const LATE = /\btime(d)?[ -]?out\b|\bTimeoutError\b|\bexceeded while\b/i;

/** What this agent kept from a suite that failed: nothing is known about the target then. */
function faultOf({ loose, tests, gate, isFull, wasStarved }: Facts): Cut | null {
  const failed = tests.filter(({ status }) => status === 'failed' || status === 'interrupted');
  const errors = [...loose, ...failed.flatMap((test) => test.errors)];
  if (isFull) return ours('test', FULL_DISK.code, FULL_DISK.message);
  // Of what the policy keeps only what an error names: a page may miss the rest without harm.
  const refusal = gate?.refusals.find(
    ({ code, sentence }) =>
      code !== BLOCKED || errors.some(({ message, stack = '' }) => `${message}\n${stack}`.includes(sentence)),
  );
  if (refusal !== undefined) return ours('test', refusal.code, refusal.sentence);
  if (gate?.wasInterrupted === true) return ours('test', 'EGRESS_FAULT', INTERRUPTED);
  const isLate = ({ errors: found }: SuiteTest): boolean =>
    found.length > 0 && found.every(({ message }) => LATE.test(message));
  const isBusy = failed.length > 0 && failed.every((test) => isLate(test) && wasStarved(test));
  return isBusy ? tooBusy('test') : null;
}

const BLOCKED = 'TARGET_BLOCKED';
const INTERRUPTED = 'the connections of the suite were cut: the egress process of this agent ended meanwhile';

export const tooBusy = (stage: Stage): Cut =>
  ours(
    stage,
    'AGENT_OVERLOADED',
    'this agent was too busy to judge the target: the suite waited for a processor for half of its time and ' +
      'more; run fewer checks beside it, or give the agent more processors',
  );

const MB = 1024 * 1024;
/** Far more than anybody reads, and less than what Playwright breaks down at. */
const MUCH_PRINTED_BYTES = 100 * MB;
const NO_ROOM = /Array buffer allocation failed|Invalid string length|heap out of memory/;
const BROWSER_MISSING = /Executable doesn't exist at (\S+)/;

function cutOf(facts: Facts): Cut | null {
  const { hasBegun, loose, metrics, ended, status, printed } = facts;
  const texts = [...loose, ...facts.tests.flatMap(({ errors }) => errors)].map(({ message }) => message);
  const missing = texts.map((text) => BROWSER_MISSING.exec(text)?.[1]).find((each) => each !== undefined);
  if (missing !== undefined) {
    const name = /([a-z_]+)-\d+/.exec(missing)?.[1]?.replaceAll('_', '-') ?? 'a browser';
    const message = `the tests need ${name}, which was not asked for: add it to the check's browsers`;
    return problem('test', 'BROWSER_NOT_ASKED', message);
  }
  if (facts.printedBytes > MUCH_PRINTED_BYTES && [...texts, printed].some((text) => NO_ROOM.test(text))) {
    const message = `the suite printed ${Math.round(facts.printedBytes / MB)} MB, which Playwright keeps in memory with its tests: print less`;
    return problem('test', 'OUTPUT_LIMIT', message);
  }
  if (!hasBegun) return notBegun(ended, printed);
  const [first] = loose;
  if (first !== undefined) return problem('test', ...looseCause(first));
  if (metrics.total === 0 && ended?.code !== 0) return problem('test', 'NO_TESTS', NO_TESTS);
  const hasFailed = metrics.failed + metrics.interrupted > 0;
  if (status === 'timedout') return problem('test', 'GLOBAL_TIMEOUT', GLOBAL_TIMEOUT);
  if (ended !== undefined && ended.code !== 0 && !hasFailed) {
    const why = lastLines(printed, 3);
    const how = ended.signal === null ? `exit code ${ended.code}` : `signal ${ended.signal}`;
    return problem('test', 'TEST_COMMAND', `no test failed, but the test command ended with ${how}: ${why}`);
  }
  return null;
}

const NO_TESTS =
  'no tests were found: correct testDir and testMatch in the Playwright config, or the projects and tags of the check';
const GLOBAL_TIMEOUT =
  'the suite exceeded the globalTimeout of its Playwright config: raise it, or run fewer tests';

function looseCause({ message, file, line }: SuiteError): [code: string, message: string] {
  if (/No tests found/i.test(message)) return ['NO_TESTS', NO_TESTS];
  if (/Timed out waiting .* for the (entire )?test (suite|run)/i.test(message)) {
    return ['GLOBAL_TIMEOUT', GLOBAL_TIMEOUT];
  }
  const [sentence = ''] = message
    .split('\n')
    .map((text) => text.trim())
    .filter((text) => text !== '');
  const place = file === undefined ? '' : ` (${file}${line === undefined ? '' : `:${line}`})`;
  const code = /SyntaxError|Unexpected token|Cannot find module|ERR_MODULE_NOT_FOUND/.test(message)
    ? 'BAD_CODE'
    : 'SUITE_ERROR';
  return [
    code,
    `the suite could not run as a whole: ${sentence}${sentence.includes(place.trim()) ? '' : place}`,
  ];
}

/** Nothing was heard of the tests: the config, or what the command is. */
function notBegun(ended: Ended | undefined, printed: string): Cut {
  const words = lastLines(printed, 200);
  if (/No tests found/i.test(words)) return problem('test', 'NO_TESTS', NO_TESTS);
  const error = words
    .split('\n')
    .find((line) => /^(Uncaught )?(\w*Error|\w*Exception)( \[\w+\])?: /.test(line));
  if (error !== undefined) {
    return problem('test', 'BAD_CONFIG', `the Playwright config could not be loaded: ${error.slice(0, 500)}`);
  }
  if (ended?.code === 127 || ended?.code === 126) {
    return problem('test', 'TEST_COMMAND', `the test command could not be started: ${lastLines(printed, 1)}`);
  }
  const how = ended?.signal == null ? `exit code ${ended?.code}` : `signal ${ended.signal}`;
  return problem(
    'test',
    'NO_PLAYWRIGHT',
    `the test command ended with ${how} and ran no Playwright: it must hand its arguments on to ` +
      `\`playwright test\`${words === '' ? '' : ` (${lastLines(printed, 3)})`}`,
  );
}

/** The process of the suite ended, or was ended, by itself. */
export function earlyCut(stage: Stage, end: EarlyEnd, limits: JobLimits): Cut {
  if (end.how === 'broken')
    return ours(stage, 'CHANNEL', `the process of the suite could not be understood (${end.why})`);
  if (end.how === 'exited') {
    return end.exit.signal === 'SIGKILL'
      ? ours(
          stage,
          'KILLED_BY_SYSTEM',
          'the system ended the suite, most likely because this machine ran out of memory',
        )
      : problem(stage, 'PROCESS_EXIT', 'the suite ended the process that it runs in');
  }
  switch (end.what) {
    case 'memory':
      return problem(
        stage,
        'MEMORY_LIMIT',
        `the suite took more memory than the ${Math.round(limits.memoryBytes / MB)} MB that it may have: run fewer workers`,
      );
    case 'processes':
      return problem(
        stage,
        'PROCESS_LIMIT',
        `the suite started more processes than the ${limits.processes} that it may have at once: run fewer workers`,
      );
    case 'disk':
      return problem(
        stage,
        'DISK_LIMIT',
        `the suite wrote more than the ${Math.round(limits.diskBytes / MB)} MB that its files may have: keep fewer files, or split it`,
      );
  }
}
