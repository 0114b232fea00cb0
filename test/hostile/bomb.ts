import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';

/** One way of using up what all jobs share. Started inside the walls; the watchdog must end it. */
const bombs: Record<string, () => void> = {
  /** Every process starts two more, in sessions of their own, without an environment. */
  fork: () => {
    const again = (): void => spawnSelf('fork');
    again();
    again();
    setInterval(again, 50);
  },
  /** Memory outside the JavaScript heap. */
  buffers: () => hold(() => Buffer.alloc(16 * MB, 1)),
  /** Memory inside it. */
  heap: () => hold(() => Array.from({ length: 100_000 }, (_, i) => ({ i, text: `${i}` }))),
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
    for (let n = 0; ; n++) writeFileSync(`many/${n}`, block);
  },
  file: () => {
    const file = openSync('large', 'w');
    try {
      for (;;) writeSync(file, Buffer.alloc(4 * MB, 1));
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
  const program = process.argv[1]!;
  // Out of descriptors or processes: that is what bombs are for.
  spawn(process.execPath, [program, kind, process.argv[3] ?? ''], {
    detached: true,
    stdio: 'ignore',
    env: {},
  })
    .on('error', () => {})
    .unref();
}

const [kind] = process.argv.slice(2);
if (kind === undefined) {
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  channel.on('end', () => process.exit(0));
  channel.setEncoding('utf8').on('data', (line: string) => {
    const { kind, token } = JSON.parse(line) as { kind: string; token: string };
    process.argv.push(kind, token);
    bombs[kind]!();
  });
} else {
  bombs[kind]!();
}
