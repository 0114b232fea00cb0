/** What became of one echo request. */
export interface PingResult {
  /** From 1. */
  sequence: number;
  success: boolean;
  /** Of the ICMP message that came back, a reply or an error; null when nothing came. */
  type: number | null;
  code: number | null;
  /** ms; null without a reply. */
  rtt: number | null;
  /** Hop limit of the reply; null when unknown. */
  ttl: number | null;
}

export interface PingOrder {
  /** An address, with a zone where it needs one. */
  address: string;
  family: 4 | 6;
  count: number;
  signal: AbortSignal;
}

/**
 * One way to send echo requests.
 *
 * @throws NotPermitted when this machine does not allow it to this process
 * @throws an Error with a `code` when the address cannot be sent to; the signal's reason
 */
export type Ping = (order: PingOrder) => Promise<PingResult[]>;

/** This way is closed; another may be open. */
export class NotPermitted extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NotPermitted';
  }
}

/** Between two echo requests to the same host. */
export const INTERVAL_MS = 500;
/** How long the last reply may take. */
export const LAST_WAIT_MS = 2000;
/** An ICMP message: 8 bytes of header and 56 of payload. */
export const PACKET_BYTES = 64;
