import { ExecutorFault } from '../ports.ts';

/** As programs of any kind say it. Node says ENOSPC of watched files, too, and means something else then. */
const SAYS_FULL =
  /\bENOSPC\b(?!: System limit for number of file watchers)|no space left on device|\bEDQUOT\b|disk quota exceeded/i;

/** The disk of the agent, and not what the suite may have of it. */
export const FULL_DISK = {
  code: 'DISK_FULL',
  message:
    'the disk of this agent is full: make room in its data folder, or give AGENT_DATA_DIR a larger one',
} as const;

export const saysFull = (text: string): boolean => SAYS_FULL.test(text);

export const fullDisk = (): ExecutorFault => new ExecutorFault(FULL_DISK.code, FULL_DISK.message);
