/** Which addresses a name has, and who said so. */
export interface Resolution {
  /** In the order to try. */
  addresses: { address: string; family: 4 | 6 }[];
  /** The server that answered (`127.0.0.1:53`), `hosts file`, `literal` or `OS resolver`. */
  source: string;
  durationMs: number;
}

/**
 * Resolves targets' names without libuv's four threads. NXDOMAIN and an empty answer are facts about
 * the target; a resolver that cannot be reached is the agent's fault.
 */
export interface Resolver {
  /**
   * @param family preferred family; the other one is returned only where `fallback` is true
   * @throws NameError when the name does not exist or has no address
   * @throws AgentFault `RESOLVER_UNREACHABLE` naming the resolvers asked
   */
  resolve(name: string, family: 4 | 6, signal: AbortSignal): Promise<Resolution>;
}

/** The name itself is the problem: a failure of the target. `code` is ENOTFOUND or ENODATA. */
export class NameError extends Error {
  readonly code: 'ENOTFOUND' | 'ENODATA' | 'ESERVFAIL';
  readonly hostname: string;
  readonly source: string;
  constructor(code: 'ENOTFOUND' | 'ENODATA' | 'ESERVFAIL', hostname: string, source: string) {
    super(
      code === 'ENOTFOUND'
        ? `${hostname} does not exist (asked ${source})`
        : code === 'ENODATA'
          ? `${hostname} has no address of the wanted family (asked ${source})`
          : `${source} could not answer for ${hostname} (SERVFAIL)`,
    );
    this.name = 'NameError';
    this.code = code;
    this.hostname = hostname;
    this.source = source;
  }
}
