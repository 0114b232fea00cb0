import { installedFiles, type ChildProgram, type Profile } from '../../src/agent/sandbox/index.ts';

export const READABLE = [...installedFiles(), import.meta.dirname, '/etc/resolv.conf', '/etc/ssl'];

/** A job of the battery: `entry` lies beside this file. */
export const program = (
  profile: Profile,
  entry: string,
  folder: string,
  more: Partial<ChildProgram> = {},
): ChildProgram => ({
  profile,
  entry: new URL(entry, import.meta.url),
  env: { PATH: '/usr/bin:/bin', LANG: 'C.UTF-8' },
  readable: READABLE,
  folder,
  may: [],
  heapMb: 256,
  permission: false,
  ...more,
});
