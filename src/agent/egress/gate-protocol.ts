/**
 * What a script process and its gate say to one another, as lines of JSON on a connection of their own.
 * The connections of user code carry nothing of it: each is a plain connection to the gate's port that
 * stays silent until its owner has said here where it leads. So whatever is built on a socket (TLS,
 * static buffers, half-open ends) works as on a direct one. The connection begins with an empty object, so
 * that the gate knows it before the first question. Types only: one side runs in a runtime's Node.
 */

/** Numbered by the process; every number is answered once, in any order. */
export type Asked =
  | { n: number; resolve: string; family: 0 | 4 | 6 }
  | {
      n: number;
      /** The local port of the connection that shall lead there. */
      dial: number;
      /** The name that `address` was found for; null for a literal. */
      host: string | null;
      address: string;
      port: number;
    };

export type Told =
  | { n: number; addresses: { address: string; family: 4 | 6 }[] }
  /** As getaddrinfo would fail. */
  | { n: number; nameError: 'ENOTFOUND' | 'EAI_AGAIN' }
  | { n: number; connected: true }
  /** As connect would fail: a negative error number of this system. */
  | { n: number; errno: number }
  /** The sentence of the policy, or of what is wrong with the proxy. */
  | { n: number; blocked: string; code: string }
  /** Not asked for: what a browser of this process could not reach. */
  | { failed: BrowserFailure };

/** Browsers say only that the way was closed. */
export interface BrowserFailure {
  host: string;
  port: number;
  /** `ECONNREFUSED`, `ENOTFOUND`, or `ERR_TARGET_BLOCKED` with the policy's sentence. */
  code: string;
  sentence: string | null;
}
