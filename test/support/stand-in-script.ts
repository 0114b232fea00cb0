import { spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { createInterface } from 'node:readline';

/**
 * A script process without Playwright: the check's variable STEPS says what it sends, prints and does, so
 * that a test decides what the agent hears.
 */
export type Step =
  | { send: object }
  | { raw: string; times?: number }
  | { print: string; times?: number }
  /** Processes that leave their parent, each with so many MB. */
  | { fork: number; eat?: number }
  /** Files of so many MB together. */
  | { fill: number }
  | { sleep: number }
  | { exit: number }
  /** Says what it finds: its folder, its variables. */
  | { look: true };

const channel = new Socket({ fd: 3, readable: true, writable: true });
channel.on('error', () => process.exit(1));
channel.on('close', () => process.exit(0));
const send = (message: object): void => void writeSync(3, `${JSON.stringify(message)}\n`);

interface Message {
  t: string;
  entry: string;
  env: Record<string, string>;
}

async function run(message: Message): Promise<void> {
  for (const step of JSON.parse(message.env['STEPS'] ?? '[]') as Step[]) {
    if ('send' in step) send(step.send);
    else if ('raw' in step) await repeat(step.times, (done) => channel.write(step.raw, done));
    else if ('print' in step) await repeat(step.times, (done) => process.stdout.write(step.print, done));
    else if ('fork' in step) for (let i = 0; i < step.fork; i++) daemon(step.eat ?? 0);
    else if ('fill' in step) fill(step.fill);
    else if ('sleep' in step) await repeat(1, (done) => setTimeout(done, step.sleep));
    else if ('exit' in step) process.exit(step.exit);
    else tell(message);
  }
}

async function repeat(times = 1, act: (done: () => void) => void): Promise<void> {
  for (let i = 0; i < times; i++) await new Promise<void>(act);
}

function daemon(megabytes: number): void {
  const program = `globalThis.hoard = Buffer.alloc(${megabytes} * 2 ** 20, 1); setInterval(() => {}, 1000)`;
  spawn(process.execPath, ['-e', program], { detached: true, stdio: 'ignore', env: {} }).unref();
}

function fill(megabytes: number): void {
  const piece = Buffer.alloc(10 * 1024 * 1024);
  for (let i = 0; i < megabytes / 10; i++) writeFileSync(`large-${i}`, piece);
}

function tell({ entry, env }: Message): void {
  const seen = {
    files: readdirSync('.', { recursive: true }).filter((name) => !String(name).startsWith('node_modules')),
    script: readFileSync(`src/${entry}`, 'utf8'),
    env,
    own: Object.keys(process.env),
  };
  send({ t: 'findings', detail: { seen }, files: [] });
}

createInterface({ input: channel }).on('line', (line) => {
  const message = JSON.parse(line) as Message;
  if (message.t === 'warm') send({ t: 'ready' });
  else if (message.t === 'run') void run(message);
});
