import {
  chmodSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { connects, containing, fail, Nothing, type Attack, type Victim } from './attacks.ts';
import { hasSyscalls, ipv4, rlimit, syscall, unixAddress } from './libc.ts';

/*
 * What a job tries on what runs beside it: another job with its browser, and the process that all
 * connections of scripts go through.
 */

const [UNIX, INET, INET6] = [1, 2, 10];
const [STREAM, DATAGRAM] = [1, 2];
const BUFFER = Buffer.alloc(256);

/** Everything that /proc has of a process, and every call that reaches into one. */
const onProcess = (whose: string, pidOf: (v: Victim) => number): Attack[] => {
  const at = (file: string, run: (path: string, v: Victim) => unknown): Attack => ({
    name: `${whose}: ${file}`,
    run: (v) => run(`/proc/${pidOf(v)}/${file}`, v),
  });
  return [
    at('environ', (path, v) => containing(readFileSync(path, 'latin1'), v.siblingSecret)),
    at('mem', (path) => readSync(openSync(path, 'r+'), Buffer.alloc(1), 0, 1, 0x400000)),
    at('maps', (path) => readFileSync(path).length || fail()),
    at('auxv', (path) => readFileSync(path).length || fail()),
    at('cwd', (path) => readlinkSync(path)),
    at('cwd/', (path) => readdirSync(path)),
    at('root/', (path) => readdirSync(path)),
    at('exe', (path) => readlinkSync(path)),
    at('fd', (path) => readdirSync(path).length || fail()),
    at('fd/3', (path) => openSync(path, 'r+')),
    at('cmdline', (path, v) => containing(readFileSync(path, 'latin1'), v.siblingSecret)),
    at('oom_score_adj', (path) => writeFileSync(path, '1000')),
    at('coredump_filter', (path) => writeFileSync(path, '0xff')),
    { name: `${whose}: SIGKILL`, run: (v) => process.kill(pidOf(v), 'SIGKILL') || 'sent' },
    ...(hasSyscalls
      ? [
          { name: `${whose}: ptrace`, run: (v: Victim) => syscall('ptrace', 0x4206, pidOf(v), 0, 0) },
          {
            name: `${whose}: process_vm_readv`,
            run: (v: Victim) => syscall('process_vm_readv', pidOf(v), BUFFER, 1, BUFFER, 1, 0),
          },
          {
            name: `${whose}: prlimit64`,
            run: (v: Victim) => syscall('prlimit64', pidOf(v), 7, rlimit(3n, 3n), null),
          },
          { name: `${whose}: setpriority`, run: (v: Victim) => syscall('setpriority', 0, pidOf(v), 19) },
          {
            name: `${whose}: pidfd_getfd`,
            run: (v: Victim) => syscall('pidfd_getfd', syscall('pidfd_open', pidOf(v), 0), 3, 0),
          },
        ]
      : []),
  ];
};

/** Success is what the file looks like afterwards: some of these are told that they were done. */
export const changes = (path: string, change: () => void): string => {
  const state = (): string => {
    const { mode, mtimeMs } = statSync(path);
    return `${mode} ${mtimeMs}`;
  };
  const before = state();
  change();
  if (state() === before) throw new Nothing('it is as it was');
  return 'changed it';
};

/** Of a folder in which files are made meanwhile. */
async function hearsOfFiles(folder: string): Promise<boolean> {
  const watcher = watch(folder);
  try {
    const heard = once(watcher, 'change', { signal: AbortSignal.timeout(300) });
    writeFileSync(join(folder, 'news'), 'x');
    return await heard.then(
      () => true,
      () => false,
    );
  } finally {
    watcher.close();
  }
}

const onFiles: Attack[] = [
  ...(['siblingFolder', 'stateFile'] as const).flatMap((which): Attack[] => [
    { name: `permissions of ${which}`, run: (v) => changes(v[which], () => chmodSync(v[which], 0o777)) },
    { name: `times of ${which}`, run: (v) => changes(v[which], () => utimesSync(v[which], 1, 1)) },
    {
      name: `attributes of ${which}`,
      run: (v) => syscall('setxattr', text(v[which]), text('user.x'), Buffer.from('x'), 1, 0) || 'set',
    },
    {
      name: `watch ${which}`,
      run: async (v) => {
        watch(v[which]).close();
        if (!(await hearsOfFiles(v.folder))) throw new Nothing('no news come');
        return 'watched';
      },
    },
  ]),
  {
    name: "read the profile of another job's browser",
    run: (v) => containing(readFileSync(v.profileFile, 'utf8'), v.siblingSecret),
  },
  { name: 'list that profile', run: (v) => readdirSync(dirname(v.profileFile)) },
  { name: 'remove that profile', run: (v) => rmSync(dirname(v.profileFile), { recursive: true }) },
  { name: "move another job's folder", run: (v) => renameSync(v.siblingFolder, `${v.siblingFolder}0`) },
  { name: "make another job's folder", run: (v) => mkdirSync(join(v.workFolder, '99')) },
  { name: 'shared memory as files', run: () => readdirSync('/dev/shm') },
];

const text = (value: string): Buffer => Buffer.from(`${value}\0`);

const unix = (path: string): unknown => {
  const address = unixAddress(path);
  return syscall('connect', syscall('socket', UNIX, STREAM, 0), address, address.length) || 'connected';
};

/** X11, the message bus, the engine of containers: whoever gets there acts for the user. */
const onSockets: Attack[] = [
  '/run/dbus/system_bus_socket',
  '/run/user/1000/bus',
  '/tmp/.X11-unix/X0',
  '@/tmp/.X11-unix/X0',
  '/var/run/docker.sock',
].map((path) => ({ name: `socket ${path}`, scope: 'sockets-of-the-machine', run: () => unix(path) }));

export const TWO_JOBS: readonly Attack[] = [
  ...onProcess('another job', (v) => v.siblingPid),
  ...onProcess("another job's browser", (v) => v.browserPid),
  ...onFiles,
  ...(hasSyscalls ? onSockets : []),
];

async function dialed(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' });
  await once(socket, 'connect');
  return socket.on('error', () => {});
}

/** Asks the gate as our own code does. */
async function throughGate(v: Victim, address: string, port: number): Promise<string> {
  const [line, way] = [await dialed(v.allowedPort), await dialed(v.allowedPort)];
  try {
    const question = { n: 1, dial: way.localPort, host: null, address, port };
    line.write(`{}\n${JSON.stringify(question)}\n`);
    const [told] = (await once(createInterface(line), 'line', { signal: AbortSignal.timeout(5000) })) as [
      string,
    ];
    if ('connected' in (JSON.parse(told) as object)) return 'connected';
    throw new Nothing(told);
  } finally {
    line.destroy();
    way.destroy();
  }
}

/** Asks it as a browser does. */
async function bySocks(v: Victim, address: string, port: number): Promise<string> {
  const socket = await dialed(v.allowedPort);
  try {
    let heard = Buffer.alloc(0);
    socket.on('data', (bytes: Buffer) => (heard = Buffer.concat([heard, bytes])));
    socket.write(Buffer.from([5, 1, 0]));
    await once(socket, 'data', { signal: AbortSignal.timeout(5000) });
    const to = ipv4(address, port);
    socket.write(Buffer.concat([Buffer.from([5, 1, 0, 1]), to.subarray(4, 8), to.subarray(2, 4)]));
    await Promise.race([once(socket, 'data', { signal: AbortSignal.timeout(5000) }), once(socket, 'close')]);
    if (heard[3] === 0 && heard.length > 4) return 'connected';
    throw new Nothing('refused');
  } finally {
    socket.destroy();
  }
}

const TCP = 6;
const FASTOPEN_CONNECT = 30;

const beside: Attack[] = [
  { name: 'a target, directly', run: (v) => connects({ port: v.targetPort, host: '127.0.0.1' }) },
  { name: 'a target by IPv6', run: (v) => connects({ port: v.targetPort, host: '::1' }) },
  {
    name: 'a target as IPv4 in IPv6',
    run: (v) => connects({ port: v.targetPort, host: '::ffff:127.0.0.1' }),
  },
  { name: "another job's gate", run: (v) => connects({ port: v.otherGatePort, host: '127.0.0.1' }) },
  { name: "the agent's health port", run: (v) => connects({ port: v.controlPort, host: '127.0.0.1' }) },
];

const byCalls: Attack[] = [
  ...(
    [
      ['UDP', INET, DATAGRAM, 0],
      ['UDP over IPv6', INET6, DATAGRAM, 17],
      ['UDP-Lite', INET, DATAGRAM, 136],
      ['ICMP', INET, DATAGRAM, 1],
      ['MPTCP over IPv6', INET6, STREAM, 262],
      ['SMC', 43, STREAM, 0],
      ['TIPC', 30, STREAM, 0],
      ['Bluetooth', 31, STREAM, 0],
      ['AX.25', 3, DATAGRAM, 0],
    ] as const
  ).map(([name, family, type, protocol]) => ({
    name: `${name} socket`,
    run: () => syscall('socket', family, type, protocol),
  })),
  {
    name: 'a target by delayed fast open',
    run: (v) => {
      const socket = syscall('socket', INET, STREAM, 0);
      syscall('setsockopt', socket, TCP, FASTOPEN_CONNECT, Buffer.from([1, 0, 0, 0]), 4);
      return syscall('connect', socket, ipv4('127.0.0.1', v.targetPort), 16) || 'connected';
    },
  },
  {
    name: 'a target by a socket that was disconnected',
    run: (v) => {
      const socket = syscall('socket', INET, STREAM, 0);
      syscall('connect', socket, ipv4('127.0.0.1', v.allowedPort), 16);
      syscall('connect', socket, Buffer.alloc(16), 16);
      return syscall('connect', socket, ipv4('127.0.0.1', v.targetPort), 16) || 'connected';
    },
  },
  {
    name: 'wait on a port of chance',
    scope: 'no-listen',
    run: () => syscall('listen', syscall('socket', INET, STREAM, 0), 1) || 'listens',
  },
];

const throughIt: Attack[] = (
  [
    ["the agent's health port", '127.0.0.1', (v: Victim) => v.controlPort],
    ['the same by another address of loopback', '127.3.2.1', (v: Victim) => v.controlPort],
    ['the same as 0.0.0.0', '0.0.0.0', (v: Victim) => v.controlPort],
    ["another job's gate", '127.0.0.1', (v: Victim) => v.otherGatePort],
    ['its own gate', '127.0.0.1', (v: Victim) => v.allowedPort],
    ['the metadata address', '169.254.169.254', () => 80],
  ] as const
).flatMap(([what, address, port]): Attack[] => [
  { name: `${what}, through the gate`, run: (v) => throughGate(v, address, port(v)) },
  { name: `${what}, by SOCKS`, run: (v) => bySocks(v, address, port(v)) },
]);

export const EGRESS: readonly Attack[] = [
  ...beside,
  ...(hasSyscalls ? byCalls : []),
  ...throughIt,
  ...onProcess('the egress process', (v) => v.egressPid),
];

/** What is left open on purpose: each goes through the gate, which judges and counts it. */
export const GATE_RIGHTS: readonly Attack[] = [
  { name: 'reach a target through its gate', run: (v) => throughGate(v, '127.0.0.1', v.targetPort) },
  { name: 'reach a target by SOCKS', run: (v) => bySocks(v, '127.0.0.1', v.targetPort) },
];
