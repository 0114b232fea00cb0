import { createContext, Script } from 'node:vm';
import { codeOf } from '../kit/errors.ts';

/** User-written patterns and paths may not hold the probe's only thread longer than this, ms. */
export const PATTERN_LIMIT_MS = 200;

const box: { work?: () => void } = Object.create(null);
const context = createContext(box);
const script = new Script('work()');

/** The work did not end in its time and was stopped in the middle. */
export class TooSlow extends Error {
  constructor(limitMs: number) {
    super(`took longer than ${limitMs} ms and was stopped`);
    this.name = 'TooSlow';
  }
}

/**
 * Runs `work` and stops it after `limitMs`, also inside a regular expression that backtracks without
 * end. V8 unwinds the stack up to here, so `work` must leave nothing half done outside itself.
 *
 * @throws TooSlow
 */
export function within<T>(limitMs: number, work: () => T): T {
  let result: { value: T } | undefined;
  box.work = () => void (result = { value: work() });
  try {
    script.runInContext(context, { timeout: limitMs });
  } catch (error) {
    if (codeOf(error) === 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw new TooSlow(limitMs);
    throw error;
  } finally {
    delete box.work;
  }
  if (result === undefined) throw new TooSlow(limitMs);
  return result.value;
}
