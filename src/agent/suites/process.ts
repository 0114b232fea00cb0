import { z } from 'zod';
import { messageOf } from '../../kit/errors.ts';
import type { OpenGate } from '../egress/index.ts';
import { fileBeside, programText } from '../program-text.ts';
import { LineReader } from '../lines.ts';
import { ExecutorFault } from '../ports.ts';
import {
  installedFiles,
  startChild,
  type Child,
  type ChildExit,
  type Excess,
  type JobLimits,
  type Permission,
  type Scheduling,
} from '../sandbox/index.ts';
import { SuiteProblem } from './problem.ts';
import type { Question } from './protocol.ts';

const childFile = (name: string): URL => fileBeside(`child/${name}`, import.meta.url);
const MAIN = childFile('main');
export const PRELOAD = childFile('preload');
/** Run by the project's Playwright, whose ways with other files than its own differ from version to version. */
const texts = { reporter: childFile('reporter'), additions: childFile('additions') };
const known = new Map<string, string>();

export function childText(name: keyof typeof texts): string {
  const text = known.get(name) ?? programText(texts[name]);
  known.set(name, text);
  return text;
}

/** A module of ours in the other kind; as plain as the reporter is. @throws Error for one that is not */
export function commonJsOf(text: string): string {
  const converted = text
    .replace(/^import (\{[^}]*\}) from ('[^']+');$/gm, 'const $1 = require($2);')
    .replace(/^export default class/m, 'module.exports = class');
  if (/^(import|export)\b/m.test(converted)) throw new Error('a module with more than plain imports');
  return converted;
}

const HEAP_MB = 256;
const MAX_LINE_CHARS = 4 * 1024 * 1024;
/** Everything of the system that browsers and package managers read beyond the profile's. */
const SYSTEM_FILES = [
  '/etc/services',
  '/etc/protocols',
  '/etc/ssl',
  '/usr/share',
  '/usr/local/share',
  '/opt',
];

const Answer = z.union([
  z.object({ n: z.int(), problem: z.object({ code: z.string().max(100), message: z.string() }) }),
  z.object({ n: z.int(), fault: z.string() }),
  z.object({ n: z.int(), value: z.unknown() }),
]);

export interface SuiteProgram {
  folder: string;
  /** Folders of tools, browsers and archives that it may read, and start programs in. */
  readable: readonly string[];
  executable: readonly string[];
  /** Its ways out; empty where every target may be reached. The first is used by our own code. */
  gates: readonly OpenGate[];
  env: Readonly<Record<string, string>>;
  limits: JobLimits;
  may: readonly Permission[];
}

/** How a process ended before it was told to. */
export type EarlyEnd =
  { how: 'exited'; exit: ChildExit } | { how: 'exceeded'; what: Excess } | { how: 'broken'; why: string };

/** The process of one suite, and everything that it starts. */
export class SuiteProcess {
  readonly ended: Promise<EarlyEnd>;
  /** What is printed by it and by everything that it starts. */
  onPrint: (level: 'info' | 'error', chunk: Buffer) => void = () => {};
  readonly #child: Child;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  readonly #lines = new LineReader(MAX_LINE_CHARS);
  readonly #broken = Promise.withResolvers<EarlyEnd>();
  #last = 0;

  constructor({ folder, readable, executable, gates, env, limits, may }: SuiteProgram) {
    const ports = gates.map(({ port }) => port);
    this.#child = startChild({
      profile: 'suite',
      entry: MAIN,
      env,
      readable: [...installedFiles(), ...SYSTEM_FILES, ...readable],
      executable,
      folder,
      may,
      heapMb: HEAP_MB,
      arguments: ports.slice(0, 1).map(String),
      ...(ports.length === 0 ? {} : { tcpPorts: ports }),
      limits,
    });
    const { channel, stdout, stderr, exited, exceeded } = this.#child;
    channel.on('data', (bytes: Buffer) => this.#receive(bytes));
    stdout?.on('data', (chunk: Buffer) => this.onPrint('info', chunk));
    stderr.on('data', (chunk: Buffer) => this.onPrint('error', chunk));
    this.ended = Promise.race([
      exceeded.then((what): EarlyEnd => ({ how: 'exceeded', what })),
      this.#broken.promise,
      exited.then((exit): EarlyEnd => ({ how: 'exited', exit })),
    ]);
    void this.ended.then((end) => this.#giveUp(end));
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }
  get memoryBytes(): number {
    return this.#child.usage().memoryBytes;
  }
  scheduling(): Scheduling {
    return this.#child.scheduling();
  }
  /** What each of its processes asked of the processors. */
  loads(): ReturnType<Child['loads']> {
    return this.#child.loads();
  }
  /** As `Child.give`. */
  give(path: string): void {
    this.#child.give(path);
  }
  lastWords(): string {
    return this.#child.lastWords();
  }

  /**
   * @throws SuiteProblem when the project is at fault, ExecutorFault when something else is, Gone when the
   * process ended meanwhile
   */
  async ask<S extends z.ZodType>(question: Question, schema: S): Promise<z.infer<S>> {
    const n = ++this.#last;
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(n, waiting);
    const { channel } = this.#child;
    if (channel.writable) channel.write(`${JSON.stringify({ n, ...question })}\n`);
    const parsed = schema.safeParse(await waiting.promise);
    if (parsed.success) return parsed.data;
    throw new ExecutorFault('CHANNEL', `the process of the suite gave no answer to ${question.do}`);
  }

  /** Ends every process of it. Its files are at rest afterwards. */
  end(): Promise<void> {
    return this.#child.end();
  }

  #receive(bytes: Buffer): void {
    try {
      for (const line of this.#lines.push(bytes)) this.#settle(Answer.parse(JSON.parse(line)));
    } catch (error) {
      this.#child.channel.destroy();
      this.#broken.resolve({ how: 'broken', why: messageOf(error) });
    }
  }

  #settle(answer: z.infer<typeof Answer>): void {
    const waiting = this.#waiting.get(answer.n);
    this.#waiting.delete(answer.n);
    if ('problem' in answer) waiting?.reject(new SuiteProblem(answer.problem.code, answer.problem.message));
    else if ('fault' in answer) waiting?.reject(new ExecutorFault('SUITE_FAULT', answer.fault));
    else waiting?.resolve(answer.value);
  }

  #giveUp(end: EarlyEnd): void {
    for (const { reject } of this.#waiting.values()) reject(new Gone(end));
    this.#waiting.clear();
  }
}

/** The process ended before it answered. */
export class Gone extends Error {
  readonly end: EarlyEnd;
  constructor(end: EarlyEnd) {
    super('the process of the suite ended');
    this.end = end;
  }
}
