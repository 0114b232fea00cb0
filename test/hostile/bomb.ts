import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';

/*
 * One way of using up what all jobs share. Started inside the walls; the watchdog must end it. Should that
 * fail, or whoever watches be gone, every process ends by itself at the same moment, and none starts another
 * later or deeper than DEEPEST.
 */
const LIFE_MS = 30_000;
/** 511 processes. */
const DEEPEST = 8;

const bombs: Record<string, () => void> = {
  /** Every process starts two more, in sessions of their own, without an environment. */
  fork: () => {
    if (depth >= DEEPEST) return;
    spawnSelf('fork');
    spawnSelf('fork');
    setInterval(() => {}, 1000);
  },
  /** The one of every textbook; a thousand processes, and each is gone by itself after some seconds. */
  shell: () => {
    const text = 'b() { [ $1 -lt 9 ] || exec sleep 9; b $(($1+1)) | b $(($1+1)) & }; b 0';
    spawn('/bin/sh', ['-c', text], { detached: true, stdio: 'ignore' }).unref();
    setInterval(() => {}, 1000);
  },
  /** Memory outside the JavaScript heap. */
  buffers: () => hold(() => Buffer.alloc(16 * MB, 1)),
  /** Memory inside it. */
  heap: () => hold(() => Array.from({ length: 500_000 }, () => 1.5)),
  /** Seven processes that are modest one by one. */
  crowd: () => {
    for (let n = 0; n < 7; n++) spawnSelf('member');
    setInterval(() => {}, 1000);
  },
  member: () => {
    const held = Array.from({ length: 12 }, () => Buffer.alloc(16 * MB, 1));
    setInterval(() => held.length, 1000);
  },
  files: () => {
    mkdirSync('many', { recursive: true });
    const block = Buffer.alloc(4 * MB, 1);
    for (let n = 0; Date.now() < deadline; n++) writeFileSync(`many/${n}`, block);
  },
  file: () => {
    const file = openSync('large', 'w');
    try {
      while (Date.now() < deadline) writeSync(file, Buffer.alloc(4 * MB, 1));
    } finally {
      closeSync(file);
    }
  },
  /** Daemons: orphans in sessions of their own that outlive who started them. */
  daemons: () => {
    for (let n = 0; n < 20; n++) spawnSelf('daemon');
    setTimeout(() => process.exit(0), 500);
  },
  daemon: () => {
    process.on('SIGTERM', () => {}).on('SIGHUP', () => {});
    setInterval(() => {}, 1000);
  },
  /** A job with a browser: a process that hears it by a pipe. */
  keeper: () => {
    const browser = spawn(process.execPath, [...selfArguments('daemon')], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
      env: process.env,
    });
    writeSync(3, `${browser.pid}\n`);
    setInterval(() => {}, 1000);
  },
  /** Children that nobody waits for. */
  zombies: () => {
    for (let n = 0; n < 20; n++) spawnSelf('nothing');
    setTimeout(() => process.exit(0), 500);
  },
  nothing: () => {
    spawnSelf('leave');
    process.exit(0);
  },
  leave: () => process.exit(0),
};

const MB = 1024 * 1024;

function hold(make: () => unknown): void {
  const held: unknown[] = [];
  const more = (): void => {
    held.push(make());
    setImmediate(more);
  };
  more();
}

function spawnSelf(kind: string): void {
  if (Date.now() > deadline) process.exit(0);
  // Out of descriptors or processes: that is what bombs are for.
  spawn(process.execPath, selfArguments(kind), {
    detached: true,
    stdio: 'ignore',
    env: {},
  })
    .on('error', () => {})
    .unref();
}

function selfArguments(kind: string): string[] {
  return [process.argv[1]!, kind, token, String(deadline), String(depth + 1)];
}

const [kind] = process.argv.slice(2);
let token = process.argv[3] ?? '';
const deadline = Number(process.argv[4] ?? Date.now() + LIFE_MS);
const depth = Number(process.argv[5] ?? 0);
setTimeout(() => process.exit(0), Math.max(0, deadline - Date.now())).unref();
if (kind === undefined) {
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  channel.on('end', () => process.exit(0));
  channel.setEncoding('utf8').on('data', (line: string) => {
    const order = JSON.parse(line) as { kind: string; token: string };
    token = order.token;
    bombs[order.kind]!();
  });
} else {
  bombs[kind]!();
}
