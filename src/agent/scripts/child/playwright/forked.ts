import type { RunScript, WarmUp } from '../../protocol.ts';

export const forkEnvironment = (
  _w: WarmUp,
  _r: RunScript,
  _v: Record<string, string>,
): Record<string, string> => ({});
