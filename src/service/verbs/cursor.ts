import { createHash } from 'node:crypto';
import { isUuid } from '../../kit/ids.ts';
import type { ResultPosition } from '../store/index.ts';
import { invalid } from './problems.ts';

/** Bytes of the checksum: enough that a changed or foreign cursor is refused, not obeyed. */
const CHECKSUM_BYTES = 6;

/** Where a walk over the results of one check stands, as an opaque word. */
export function encodeCursor(checkId: string, at: ResultPosition): string {
  const payload = Buffer.from(`${at.startedAtMicros}/${at.id}`);
  return Buffer.concat([checksum(checkId, payload), payload]).toString('base64url');
}

/** @throws Refusal `invalid` for anything that encodeCursor did not make for this check */
export function decodeCursor(checkId: string, cursor: string): ResultPosition {
  const bytes = Buffer.from(cursor, 'base64url');
  const payload = bytes.subarray(CHECKSUM_BYTES);
  const [micros = '', id = ''] = payload.toString().split('/');
  const startedAtMicros = Number(micros);
  const whole =
    bytes.toString('base64url') === cursor &&
    bytes.subarray(0, CHECKSUM_BYTES).equals(checksum(checkId, payload)) &&
    Number.isSafeInteger(startedAtMicros) &&
    isUuid(id);
  if (!whole) throw invalid(['nextId: must be the nextId of an earlier answer of the same list']);
  return { startedAtMicros, id };
}

function checksum(checkId: string, payload: Buffer): Buffer {
  return createHash('sha256').update(checkId).update(payload).digest().subarray(0, CHECKSUM_BYTES);
}
