import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { BASE_IMAGE, docker, ensureBaseImage } from '../image/base.ts';
import { CHART } from '../support/chart-values.ts';
import { describeUnless } from '../support/programs.ts';

const PROFILE = join(CHART, 'seccomp/chromium.json');
/** As the chart starts agents. */
const RESTRICTED = ['--read-only', '--cap-drop=ALL', '--security-opt=no-new-privileges', '--user=1000'];
const CHROMIUM = [
  'chromium-headless-shell',
  '--headless',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--dump-dom',
  'data:text/html,<p>seen</p>',
];

interface Profile {
  defaultAction: string;
  architectures: string[];
  syscalls: { names: string[]; action: string }[];
}
const profile = JSON.parse(readFileSync(PROFILE, 'utf8')) as Profile;

test('the profile allows by name, in the form that every container runtime reads', () => {
  expect(Object.keys(profile).sort()).toEqual([
    'architectures',
    'defaultAction',
    'defaultErrnoRet',
    'syscalls',
  ]);
  expect(profile.defaultAction).toBe('SCMP_ACT_ERRNO');
  expect(profile.architectures).toEqual(['SCMP_ARCH_X86_64', 'SCMP_ARCH_AARCH64']);
  const allowed = profile.syscalls.flatMap(({ names, action }) => (action === 'SCMP_ACT_ALLOW' ? names : []));
  expect(allowed).toEqual(expect.arrayContaining(['clone', 'unshare', 'chroot', 'landlock_restrict_self']));
  for (const name of ['mount', 'setns', 'bpf', 'io_uring_setup', 'keyctl', 'kexec_load', 'init_module']) {
    expect(allowed).not.toContain(name);
  }
});

describeUnless(ensureBaseImage(), "Chromium's own sandbox in a container as the chart starts it", () => {
  const run = (seccomp: readonly string[], ...command: string[]): ReturnType<typeof docker> =>
    docker(
      'run',
      '--rm',
      '--network=none',
      '--tmpfs=/tmp:mode=1777',
      '--env=HOME=/tmp',
      ...RESTRICTED,
      ...seccomp,
      BASE_IMAGE,
      ...command,
    );
  const ours = [`--security-opt=seccomp=${PROFILE}`];

  test('works with the profile and not with that of the runtime', () => {
    expect(run([], ...CHROMIUM).stderr).toContain('No usable sandbox');
    expect(run(ours, ...CHROMIUM).stdout).toContain('<p>seen</p>');
  }, 60_000);

  test('a process may be root of its own name space, and still not mount', () => {
    expect(run(ours, 'unshare', '--user', '--map-root-user', 'id', '-u').stdout).toBe('0\n');
    const mount = ['unshare', '--user', '--map-root-user', '--mount', '--propagation=unchanged'];
    expect(run(ours, ...mount, 'mount', '-t', 'tmpfs', 'x', '/mnt').status).not.toBe(0);
  }, 60_000);
});
