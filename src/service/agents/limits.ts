import { POLL_HOLD_MS } from '../../contract/index.ts';

/** Bounds of the agents' end of the wire. Tests shorten them; nobody else needs to. */
export const GATEWAY_LIMITS = {
  /** A socket that has not said hello by then is closed. */
  helloMs: 10_000,
  /** A socket whose peer does not answer a ping before the next one is dead. */
  pingEveryMs: 20_000,
  pollHoldMs: POLL_HOLD_MS,
  /** A long-poll session without a poll for this long has ended. */
  pollSilenceMs: 60_000,
  /** Sockets and polls that have not been welcomed, all locations together. */
  unwelcomed: 1000,
  sessionsPerLocation: 5000,
  /** Messages of one session that wait to be handled, before its socket is no longer read. */
  inbox: 100,
  /** Unreadable messages before a session is closed. */
  badMessages: 10,
  /** Bytes that wait to be sent on one socket: from `busy` no offers, from `stuck` it is closed. */
  sendBusyBytes: 1024 * 1024,
  sendStuckBytes: 8 * 1024 * 1024,
  /** Largest result batch as it arrives, compressed. */
  batchBytes: 4 * 1024 * 1024,
  /** Result batches being read or stored: all locations, and each. */
  batches: 32,
  batchesPerLocation: 8,
  /** Requests for artifacts being served: all locations, and each. An agent sends three parts at once. */
  uploads: 64,
  uploadsPerLocation: 24,
  /** A part of which no byte arrives for so long is given up. */
  uploadSilenceMs: 60_000,
  /** The queue is looked at this often (± a third) even when no wake-up came. */
  claimEveryMs: 1500,
  /** Keys, once found, are believed this long; a revocation's wake-up ends it at once. */
  keyCacheMs: 1000,
  /** Hellos and renewals that arrive within this time share a statement. */
  gatherMs: 20,
} as const;
export type GatewayLimits = { readonly [K in keyof typeof GATEWAY_LIMITS]: number };
