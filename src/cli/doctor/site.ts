import { tryAgentSettings, type AgentSettings } from '../../agent/settings.ts';
import { ServiceClient } from '../../agent/connection/index.ts';
import { ProbePool } from '../../agent/probes/index.ts';
import { createLog, type Log } from '../../kit/log.ts';
import { proxyFor } from '../../kit/proxies.ts';
import type { Environment } from '../../kit/settings.ts';
import { VERSION } from '../../kit/version.ts';

/** How the service is reached. */
export interface Way {
  service: URL;
  proxy: URL | undefined;
  /** The first thing to connect to: the proxy, else the service. */
  first: { host: string; port: number };
  /** The proxy's setting, for advice. */
  proxySetting: 'HTTPS_PROXY' | 'HTTP_PROXY';
}

/** What the service said to a request without a content. */
export interface Answer {
  status: number;
  body: string;
  /** Its clock at that time against ours, ms; null when it told no date. Positive when ours is ahead. */
  clockAheadMs: number | null;
}

/** The set-up under examination, and what earlier hops left for later ones. */
export class Site implements AsyncDisposable {
  readonly env: Environment;
  readonly settings: Partial<AgentSettings>;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  readonly log: Log = createLog({ level: 'silent', format: 'json', name: 'doctor' });
  /** The certificate of the service is not of this time. */
  hasBadDates = false;
  answer: Answer | undefined;
  /** A folder that can be written. */
  folder: string | undefined;
  readonly #parts = new AsyncDisposableStack();
  #pool: ProbePool | undefined;
  #client: ServiceClient | undefined;

  constructor(env: Environment) {
    this.env = env;
    const { values, problems, warnings } = tryAgentSettings(env);
    this.settings = values;
    this.problems = problems;
    this.warnings = warnings;
  }

  /** Undefined when the settings do not say. */
  get way(): Way | undefined {
    const { serviceUrl, httpProxy, httpsProxy, noProxy = '' } = this.settings;
    if (serviceUrl === undefined || !('httpProxy' in this.settings) || !('httpsProxy' in this.settings)) {
      return undefined;
    }
    const service = new URL(serviceUrl);
    const proxy = proxyFor(service, { httpProxy, httpsProxy, noProxy });
    const proxySetting = service.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY';
    return { service, proxy, first: placeOf(proxy ?? service), proxySetting };
  }

  /** As the agent's own; without a usable key the service refuses it. */
  client(): ServiceClient {
    const { serviceUrl = '', apiKey = 'none', httpProxy, httpsProxy, noProxy = '' } = this.settings;
    const proxies = { httpProxy, httpsProxy, noProxy };
    this.#client ??= this.#parts.adopt(
      new ServiceClient({ serviceUrl, apiKey, version: VERSION, proxies }),
      (client) => client.close(),
    );
    return this.#client;
  }

  /** One probe process, started with the first call. */
  pool(): ProbePool {
    if (this.#pool !== undefined) return this.#pool;
    const { useOsResolver = false, extraCaCerts } = this.settings;
    const setup = { useOsResolver, policy: { blocked: '', allowed: '' } };
    const pool = new ProbePool({
      size: 1,
      perProbe: 1,
      heapMb: 64,
      setup,
      // A file that cannot be read has been named by then.
      extraCaCerts,
      log: this.log,
    });
    pool.start();
    this.#pool = this.#parts.adopt(pool, (each) => each.stop());
    return pool;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#parts.disposeAsync();
  }
}

/** Host without brackets, and port, of an address. */
export function placeOf(url: URL): { host: string; port: number } {
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port };
}

/** `host:port` for people. */
export const shownPlace = ({ host, port }: { host: string; port: number }): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
