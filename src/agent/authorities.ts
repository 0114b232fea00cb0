import { readFileSync, statSync } from 'node:fs';
import * as tls from 'node:tls';
import { sleep } from '../kit/clock.ts';
import { ExitCode, FatalError, messageOf } from '../kit/errors.ts';
import type { Log } from '../kit/log.ts';

const LOOK_EVERY_MS = 10_000;

/**
 * Trusts the authorities of a PEM file besides Node's own. Node reads NODE_EXTRA_CA_CERTS by itself only
 * when it stood in the environment before the process began, and never again.
 */
export class ExtraAuthorities {
  readonly #path: string;
  readonly #others = tls.getCACertificates('default');
  #seen: string;

  /** @throws FatalError exit 2 when the file is not readable PEM */
  constructor(path: string) {
    this.#path = path;
    this.#seen = this.#stamp();
    try {
      this.#load();
    } catch (error) {
      throw new FatalError(
        ExitCode.usage,
        `NODE_EXTRA_CA_CERTS=${path}: ${messageOf(error)}. A readable PEM file with certificates is allowed`,
        { cause: error },
      );
    }
  }

  /** Loads the file again when it changes, until `signal` aborts. */
  async watch(signal: AbortSignal, changed: () => void, log: Log): Promise<void> {
    while (!signal.aborted) {
      await sleep(LOOK_EVERY_MS, signal).catch(() => {});
      const stamp = this.#stamp();
      if (stamp === this.#seen || signal.aborted) continue;
      this.#seen = stamp;
      try {
        this.#load();
        log.info({ file: this.#path }, 'certificate authorities loaded again');
        changed();
      } catch (error) {
        log.error({ file: this.#path, detail: messageOf(error) }, 'the changed authorities cannot be read');
      }
    }
  }

  #load(): void {
    const pem = readFileSync(this.#path, 'utf8');
    const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
    if (found === null) throw new Error('it holds no certificate');
    tls.setDefaultCACertificates([...this.#others, ...found]);
  }

  #stamp(): string {
    const stat = statSync(this.#path, { throwIfNoEntry: false });
    return stat === undefined ? 'gone' : `${stat.mtimeMs}/${stat.size}/${stat.ino}`;
  }
}
