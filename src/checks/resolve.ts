/** Which addresses a name has, and who said so. */
export interface Resolution {
  /** In the order to try. */
  addresses: { address: string; family: 4 | 6 }[];
  /** The server that answered (`127.0.0.1:53`), `hosts file`, `literal`, `loopback` or `OS resolver`. */
  source: string;
  /** Time the caller waited; near 0 when the answer was still remembered. */
  durationMs: number;
}

/**
 * Resolves targets' names without libuv's four threads. NXDOMAIN and an empty answer are facts about
 * the target; a resolver that cannot be reached is the agent's fault.
 */
export interface Resolver {
  /**
   * Addresses of the wanted family; of IPv4 where IPv6 is wanted and this machine has none. An IP
   * literal stands for itself, whatever the family.
   *
   * @throws NameError when the name does not exist or has no such address
   * @throws AgentFault `RESOLVER_UNREACHABLE` naming the resolvers asked
   */
  resolve(name: string, family: 4 | 6, signal: AbortSignal): Promise<Resolution>;
  /** The name servers that this agent uses, in order. Addresses, not names. */
  servers(): readonly { address: string; port: number }[];
}

export type NameErrorCode = 'ENOTFOUND' | 'ENODATA' | 'ESERVFAIL' | 'ERR_INVALID_IP_ADDRESS';

/** The name itself is the problem: a failure of the target. */
export class NameError extends Error {
  readonly code: NameErrorCode;
  readonly hostname: string;
  /** Who said so, as in `Resolution.source`. */
  readonly source: string;
  constructor(code: NameErrorCode, hostname: string, source: string, message: string) {
    super(message);
    this.name = 'NameError';
    this.code = code;
    this.hostname = hostname;
    this.source = source;
  }
}
