import { FromAgent } from '../../contract/index.ts';

/** What a frame turned out to be. `unknown`: a type of a later protocol, to be ignored. */
export type Frame =
  | { kind: 'message'; message: FromAgent }
  | { kind: 'unknown' }
  | { kind: 'bad'; detail: string; id: string | undefined };

const KNOWN: ReadonlySet<string> = new Set(FromAgent.options.map((option) => option.shape.t.value));

/** Reads one message that JSON has already parsed. Never throws. */
export function readFrame(value: unknown): Frame {
  if (typeof value !== 'object' || value === null || !('t' in value) || typeof value.t !== 'string') {
    return { kind: 'bad', detail: 'a message is an object with a string t', id: undefined };
  }
  if (!KNOWN.has(value.t)) return { kind: 'unknown' };
  const parsed = FromAgent.safeParse(value);
  if (parsed.success) return { kind: 'message', message: parsed.data };
  const issue = parsed.error.issues[0];
  const detail = `${value.t}.${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not readable'}`;
  const id = 'id' in value && typeof value.id === 'string' && value.id.length <= 100 ? value.id : undefined;
  return { kind: 'bad', detail: detail.slice(0, 500), id };
}

/** The same for the text of one frame. */
export function readFrameText(text: string): Frame {
  try {
    return readFrame(JSON.parse(text));
  } catch {
    return { kind: 'bad', detail: 'the frame is not JSON', id: undefined };
  }
}
