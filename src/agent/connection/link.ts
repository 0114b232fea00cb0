import { codeOf, messageOf } from '../../kit/errors.ts';
import { CloseCode, POLL_HOLD_MS, type FromAgent } from '../../contract/index.ts';

/** Why a link ended. `code` as in CloseCode; 1000 we ended it; 1006 it broke or never came about. */
export interface Closed {
  code: number;
  reason: string;
  retryAfterMs?: number;
}

/** One connection for control messages, by socket or by long poll. */
export interface Link {
  readonly kind: LinkKind;
  /** Resolves when the link is gone; never rejects. */
  readonly closed: Promise<Closed>;
  /** Queues the message; on a link that is gone it does nothing. */
  send(message: FromAgent): void;
  /** Lets what was sent leave, then ends the link. */
  close(): void;
}
export type LinkKind = 'socket' | 'poll';

/** When a link that looks alive is given up. Tests shorten it. */
export interface LinkTiming {
  openTimeoutMs: number;
  /** Socket: a ping leaves this often. */
  pingEveryMs: number;
  /** Socket: nothing heard for this long, the other end is gone. */
  silentMs: number;
  /** Long poll: a waiting request is answered within this time. */
  pollAnswerMs: number;
}

/** Both kinds of silence are found within 45 s, below the 60 s after which the service suspects us. */
export const LINK_TIMING: LinkTiming = {
  openTimeoutMs: 15_000,
  pingEveryMs: 15_000,
  silentMs: 30_000,
  pollAnswerMs: POLL_HOLD_MS + 10_000,
};

/** A link could not be opened. */
export class OpenError extends Error {
  readonly closed: Closed;
  /** The service itself could not be reached at all: says nothing about this kind of link. */
  readonly unreachable: boolean;
  constructor(closed: Closed, unreachable: boolean, options?: ErrorOptions) {
    super(closed.reason, options);
    this.name = 'OpenError';
    this.closed = closed;
    this.unreachable = unreachable;
  }
}

export const BROKEN = 1006;
export const ENDED = 1000;

/** The close code that says the same as an HTTP status. */
export function codeOfStatus(status: number): number {
  switch (status) {
    case 401:
      return CloseCode.badKey;
    case 403:
      return CloseCode.locationDisabled;
    case 409:
      return CloseCode.replaced;
    case 426:
      return CloseCode.upgradeRequired;
    case 429:
      return CloseCode.tooMany;
    case 503:
      return CloseCode.goingAway;
    default:
      return BROKEN;
  }
}

/** The service does not want this agent as it is: retried slowly, shown by readiness. */
export function isRefusal(code: number): boolean {
  const codes: readonly number[] = [CloseCode.badKey, CloseCode.locationDisabled, CloseCode.upgradeRequired];
  return codes.includes(code);
}

const UNKNOWN_AUTHORITY = [
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
];

/** Why a link could not be opened, from what was thrown. */
export function openError(error: unknown): OpenError {
  if (error instanceof OpenError) return error;
  const code = codeOf(error);
  const unknown = code !== undefined && UNKNOWN_AUTHORITY.includes(code);
  const cure = unknown ? '; set NODE_EXTRA_CA_CERTS to a PEM file with the authority that signed it' : '';
  const closed = { code: BROKEN, reason: `${messageOf(error)}${cure}` };
  return new OpenError(closed, code !== undefined && NO_ROUTE.includes(code), { cause: error });
}

const NO_ROUTE = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH', 'ENETDOWN'];
