import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { findRuntimes, type Runtime } from '../../../src/agent/runtimes/index.ts';
import type {
  FromScript,
  RunPhase,
  ScriptRequest,
  ScriptResponse,
  WarmUp,
} from '../../../src/agent/scripts/protocol.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { STAND_IN_RUNTIME } from '../../support/scripts.ts';

const ENTRY = new URL('../../../src/agent/scripts/child/main.ts', import.meta.url).pathname;

/** Those that are installed; without any this Node, which can run all but TypeScript and import statements. */
export const RUNTIMES: readonly Runtime[] = findRuntimes().length > 0 ? findRuntimes() : [STAND_IN_RUNTIME];

/** Whether scripts in TypeScript, or with import statements, can be translated there. */
export const translates = ({ modules }: Runtime): boolean => existsSync(join(modules, 'playwright'));

type Done = Extract<FromScript, { t: 'phase-done' }>;

export interface ApiChild extends AsyncDisposable {
  /** Adds files, or puts them in the place of others. Only what setup and teardown name is read again. */
  write(files: Readonly<Record<string, string>>): void;
  /** Everything since the last phase began, but its end. */
  readonly said: FromScript[];
  /** `level text` of each line of the log. */
  readonly log: string[];
  /** @throws Error when the process ends before it answers */
  setup(scripts: string | readonly string[], more?: Partial<RunPhase>): Promise<Done>;
  teardown(scripts: string | readonly string[], more?: Partial<RunPhase>): Promise<Done>;
  /** Code and printed text of a process that ended by itself. */
  readonly ended: Promise<{ code: number | null; printed: string }>;
}

export const REQUEST: ScriptRequest = {
  method: 'GET',
  url: 'http://shop.test/',
  body: '',
  headers: { Accept: '*/*' },
  queryParameters: {},
};
export const RESPONSE: ScriptResponse = {
  statusCode: 200,
  statusText: 'OK',
  headers: { 'content-type': 'text/plain' },
  body: 'answer',
  timings: { end: 5 },
  timingPhases: { total: 5 },
};

/** The scripts' process by hand, without the walls that the agent puts around it. */
export async function startApiChild(
  files: Readonly<Record<string, string>> = {},
  runtime: Runtime = RUNTIMES[0]!,
): Promise<ApiChild> {
  const folder = temporaryFolder();
  const write: ApiChild['write'] = (more) => {
    for (const [path, content] of Object.entries(more)) {
      const file = join(folder.path, 'src', path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content);
    }
  };
  write(files);
  symlinkSync(runtime.modules, join(folder.path, 'node_modules'));
  const flags = ['--disable-warning=ExperimentalWarning', ...runtime.flags];
  const process_ = spawn(runtime.node, [...flags, ENTRY], {
    cwd: folder.path,
    env: { TMPDIR: folder.path },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
  });
  const said: FromScript[] = [];
  const channel = process_.stdio[3] as Duplex;
  const next = listen(process_, channel, said);
  const send = (message: object): void => void channel.write(`${JSON.stringify(message)}\n`);
  const ended = endOf(process_);
  const { id, modules, browsers } = runtime;
  const warmUp: WarmUp = {
    t: 'warm',
    kind: 'api',
    folder: folder.path,
    runtime: { id, modules, browsers },
    isSpare: false,
    proxy: null,
    browser: null,
  };
  send(warmUp);
  await next('ready');

  const phase = (name: RunPhase['phase'], scripts: string | readonly string[], more: Partial<RunPhase>) => {
    const entries = typeof scripts === 'string' ? [scripts] : scripts;
    said.length = 0;
    send({
      t: 'phase',
      phase: name,
      scripts: entries.map((entry) => ({ title: `${name} script`, entry })),
      env: {},
      request: REQUEST,
      response: name === 'setup' ? null : RESPONSE,
      timeoutMs: 10_000,
      ...more,
    } satisfies RunPhase);
    return next('phase-done') as Promise<Done>;
  };
  return {
    write,
    said,
    get log() {
      return said.flatMap((message) => (message.t === 'log' ? [`${message.level} ${message.text}`] : []));
    },
    setup: (scripts, more = {}) => phase('setup', scripts, more),
    teardown: (scripts, more = {}) => phase('teardown', scripts, more),
    ended,
    [Symbol.asyncDispose]: async () => {
      process_.kill('SIGKILL');
      await ended;
      folder[Symbol.dispose]();
    },
  };
}

/** Files what is said; the returned function waits for one kind of message. */
function listen(
  process_: ChildProcess,
  channel: Duplex,
  said: FromScript[],
): (kind: FromScript['t']) => Promise<FromScript> {
  let rest = '';
  let waiting: { kind: string; resolve(message: FromScript): void; reject(error: Error): void } | undefined;
  channel.setEncoding('utf8').on('error', () => {});
  channel.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      const message = JSON.parse(line) as FromScript;
      if (message.t === waiting?.kind) waiting.resolve(message);
      else said.push(message);
    }
  });
  process_.once('close', () => waiting?.reject(new Error('the process has ended')));
  return (kind) => {
    const { promise, resolve, reject } = Promise.withResolvers<FromScript>();
    waiting = { kind, resolve, reject };
    if (process_.exitCode !== null) reject(new Error('the process has ended'));
    return promise;
  };
}

async function endOf(process_: ChildProcess): Promise<{ code: number | null; printed: string }> {
  let printed = '';
  for (const stream of [process_.stdout, process_.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => (printed = (printed + text).slice(0, 100_000)));
  }
  const [code] = (await once(process_, 'close')) as [number | null];
  return { code, printed };
}
