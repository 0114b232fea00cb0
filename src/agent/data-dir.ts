import { accessSync, constants, mkdirSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Log } from '../kit/log.ts';

export const DEFAULT_DIR = '/var/lib/vedette';

/**
 * The folder of the spool: the one that was set (opening it reports what is wrong with it), else the
 * default, else a temporary one, whose results a reboot loses.
 */
export function chooseDataDir(wanted: string | undefined, log: Log): string {
  if (wanted !== undefined) return wanted;
  if (isWritable(DEFAULT_DIR)) return DEFAULT_DIR;
  const dir = mkdtempSync(join(tmpdir(), 'vedette-agent-'));
  log.warn(
    { dir },
    `${DEFAULT_DIR} cannot be written; results wait in a temporary folder. Set AGENT_DATA_DIR to a folder that stays`,
  );
  return dir;
}

function isWritable(dir: string): boolean {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    accessSync(dir, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
