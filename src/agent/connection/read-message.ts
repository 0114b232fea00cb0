import { z } from 'zod';
import { FromService, Offer } from '../../contract/index.ts';

/** An offer whose jobs are still unread: one job that we cannot read must not cost the others. */
const OpenOffer = Offer.extend({ d: z.object({ jobs: z.array(z.unknown()) }) });
type OpenOffer = z.infer<typeof OpenOffer>;

export type Incoming = Exclude<FromService, { t: 'offer' }> | OpenOffer;

const known = new Set(FromService.options.map((option) => option.shape.t.value));

/** A message of the service, or why it is ignored. */
export function readMessage(raw: unknown): Incoming | { ignored: 'unknown_type' | 'malformed' } {
  const t = typeOf(raw);
  if (t === undefined) return { ignored: 'malformed' };
  if (t === 'offer') return OpenOffer.safeParse(raw).data ?? { ignored: 'malformed' };
  if (!known.has(t as FromService['t'])) return { ignored: 'unknown_type' };
  const message = FromService.safeParse(raw).data;
  return message === undefined || message.t === 'offer' ? { ignored: 'malformed' } : message;
}

function typeOf(raw: unknown): string | undefined {
  return typeof raw === 'object' && raw !== null && 't' in raw && typeof raw.t === 'string'
    ? raw.t
    : undefined;
}
