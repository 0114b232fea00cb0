import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { Admission, planLanes, readMachine, type Heavy, type Machine } from './index.ts';

const MB = 1024 * 1024;
const roots: string[] = [];
afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true });
});

function machine(files: Record<string, string>): Machine {
  const root = mkdtempSync(join(tmpdir(), 'cgroup-'));
  roots.push(root);
  const meminfo = { 'proc/meminfo': 'MemTotal:  16777216 kB\nMemAvailable:  8388608 kB\n' };
  for (const [path, text] of Object.entries({ ...meminfo, ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return readMachine(root);
}

test('without control groups the machine itself is the limit', () => {
  expect(machine({})).toEqual({
    cpus: availableParallelism(),
    memoryLimitBytes: 16384 * MB,
    memoryFreeBytes: 8192 * MB,
    pidsFree: Infinity,
  });
});

test('version 2: the tightest of the own group and its parents binds; page cache counts as free', () => {
  const found = machine({
    'proc/self/cgroup': '0::/pod/agent\n',
    'sys/fs/cgroup/pod/memory.max': `${512 * MB}\n`,
    'sys/fs/cgroup/pod/memory.current': `${300 * MB}\n`,
    'sys/fs/cgroup/pod/memory.stat': `anon 1\ninactive_file ${60 * MB}\nactive_file ${30 * MB}\nslab_reclaimable ${10 * MB}\n`,
    'sys/fs/cgroup/pod/pids.max': '100\n',
    'sys/fs/cgroup/pod/pids.current': '40\n',
    'sys/fs/cgroup/pod/agent/memory.max': 'max\n',
    'sys/fs/cgroup/pod/agent/cpu.max': '50000 100000\n',
    'sys/fs/cgroup/pod/agent/pids.max': 'max\n',
  });
  expect(found).toEqual({
    cpus: 0.5,
    memoryLimitBytes: 512 * MB,
    memoryFreeBytes: 312 * MB,
    pidsFree: 60,
  });
});

test('version 1: each controller has its own tree', () => {
  const found = machine({
    'proc/self/cgroup': '9:pids:/docker/x\n4:memory:/docker/x\n1:cpu,cpuacct:/docker/x\n0::/\n',
    'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
    'sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes': `${256 * MB}\n`,
    'sys/fs/cgroup/memory/docker/x/memory.usage_in_bytes': `${200 * MB}\n`,
    'sys/fs/cgroup/memory/docker/x/memory.stat': `inactive_file 1\ntotal_inactive_file ${30 * MB}\ntotal_active_file ${20 * MB}\n`,
    'sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us': '100000\n',
    'sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us': '100000\n',
    'sys/fs/cgroup/pids/docker/x/pids.max': '64\n',
    'sys/fs/cgroup/pids/docker/x/pids.current': '11\n',
  });
  expect(found).toMatchObject({
    cpus: 1,
    memoryLimitBytes: 256 * MB,
    memoryFreeBytes: 106 * MB,
    pidsFree: 53,
  });
});

test('in a container of version 1 the own group is the root of what is mounted', () => {
  const found = machine({
    'proc/self/cgroup': '4:memory:/docker/not-visible-here\n',
    'sys/fs/cgroup/memory/memory.limit_in_bytes': `${128 * MB}\n`,
    'sys/fs/cgroup/memory/memory.usage_in_bytes': `${28 * MB}\n`,
  });
  expect(found).toMatchObject({ memoryLimitBytes: 128 * MB, memoryFreeBytes: 100 * MB });
});

const roomy: Machine = {
  cpus: 4,
  memoryLimitBytes: 4096 * MB,
  memoryFreeBytes: 2048 * MB,
  pidsFree: Infinity,
};

test('the plan follows CPUs, memory and processes, and JOB_CONCURRENCY caps it', () => {
  const places = { light: 128, script: 8, browser: 2, suite: 1 };
  expect(planLanes(roomy, undefined)).toMatchObject({ probes: 2, total: 139, places, heapMb: 256 });
  expect(planLanes({ ...roomy, cpus: 0.5 }, undefined)).toMatchObject({
    probes: 1,
    places: { light: 64, script: 2, browser: 1, suite: 1 },
  });
  expect(planLanes({ ...roomy, pidsFree: 50 }, undefined)).toMatchObject({ probes: 1 });
  expect(planLanes({ ...roomy, memoryLimitBytes: 256 * MB }, undefined)).toMatchObject({
    probes: 1,
    heapMb: 64,
    places: { script: 0, browser: 0, suite: 0 },
  });
  expect(planLanes(roomy, 3)).toMatchObject({
    total: 3,
    places: { light: 3, script: 3, browser: 2, suite: 1 },
  });
});

test('the limit of one job stays well below that of the whole', () => {
  const small = planLanes({ ...roomy, memoryLimitBytes: 1024 * MB }, undefined);
  expect(small.places).toEqual({ light: 128, script: 4, browser: 1, suite: 1 });
  expect(small.limitBytes).toEqual({ script: 512 * MB, browser: 0.7 * 1024 * MB, suite: 768 * MB });
  expect(planLanes(roomy, undefined).limitBytes).toEqual({
    script: 768 * MB,
    browser: 2560 * MB,
    suite: 0.75 * 4096 * MB,
  });
});

const nothing: Heavy = {
  running: { script: 0, browser: 0, suite: 0 },
  usedBytes: () => 0,
  waitShare: () => 0,
};
const withFree = (memoryFreeBytes: number): Admission =>
  new Admission(() => ({ ...roomy, memoryFreeBytes }), planLanes(roomy, undefined));

test('no run is admitted into memory that is not there', () => {
  const admission = withFree(37 * MB);
  expect(admission.allow('light', 3, nothing)).toEqual({ runs: 3, short: null });
  expect(admission.allow('light', 64, nothing)).toEqual({ runs: 5, short: 'memory' });
  expect(admission.allow('script', 1, nothing)).toEqual({ runs: 0, short: 'memory' });
  expect(withFree(1 * MB).allow('light', 1, nothing)).toEqual({ runs: 0, short: 'memory' });
});

test('heavy runs that wait for processors get no company; one runs in any case, and light ones do', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const admission = withFree(9000 * MB);
  const waiting: Heavy = {
    running: { script: 1, browser: 0, suite: 0 },
    usedBytes: () => 0,
    waitShare: () => 0.6,
  };
  vi.advanceTimersByTime(1001);
  expect(admission.allow('browser', 1, waiting)).toEqual({ runs: 0, short: 'processors' });
  expect(admission.allowSpare('script', waiting)).toBe(false);
  expect(admission.allow('light', 5, waiting).runs).toBe(5);
  expect(
    admission.allow('browser', 1, { ...waiting, running: { script: 0, browser: 0, suite: 0 } }).runs,
  ).toBe(1);
});

test('memory that a heavy run was promised is not promised twice', () => {
  const admission = withFree(3200 * MB);
  expect(admission.allow('browser', 4, nothing).runs).toBe(2);
  expect(admission.allowSpare('browser', nothing)).toBe(true);
  const busy: Heavy = {
    running: { script: 0, browser: 2, suite: 0 },
    usedBytes: () => 0,
    waitShare: () => 0,
  };
  expect(admission.allow('browser', 2, busy)).toEqual({ runs: 0, short: 'memory' });
  expect(admission.allow('light', 200, busy).runs).toBe(96);
  expect(admission.allowSpare('browser', busy)).toBe(false);
});
