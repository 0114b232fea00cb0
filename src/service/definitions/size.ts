import { MAX_FRAME_BYTES } from '../../contract/index.ts';

/** A job carries its definition and this much more at most: names, addresses, the message around it. */
const ENVELOPE_BYTES = 16 * 1024;
const MAX_DEFINITION_BYTES = MAX_FRAME_BYTES - ENVELOPE_BYTES;

/** Why a definition cannot be sent to an agent, in a sentence; null when it can. */
export function oversize(definition: Record<string, unknown>): string | null {
  const bytes = Buffer.byteLength(JSON.stringify(definition));
  if (bytes <= MAX_DEFINITION_BYTES) return null;
  return (
    `has ${bytes} bytes together with what its group, its snippets and the account's variables add; ` +
    `at most ${MAX_DEFINITION_BYTES} can be sent to an agent`
  );
}
