import { X509Certificate } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import * as tls from 'node:tls';
import { sleep } from '../../kit/clock.ts';
import { ExitCode, FatalError, messageOf } from '../../kit/errors.ts';
import type { Log } from '../../kit/log.ts';
import { writeBrowserDatabase } from './browser-database.ts';

const LOOK_EVERY_MS = 10_000;

/**
 * The authorities of the machine and of a PEM file. Node reads NODE_EXTRA_CA_CERTS by itself only when it
 * stood in the environment before the process began, and never again.
 */
export class Authorities {
  readonly #path: string | undefined;
  #extra: readonly string[] = [];
  #seen = '';
  /** Where children find what they shall trust. */
  #folder: string | undefined;
  /** Made when the first browser asks. */
  #hasDatabase = false;
  /** What this process trusted before. */
  #own: readonly string[] | undefined;

  /** @throws FatalError exit 2 when the file is not readable PEM */
  constructor(path: string | undefined) {
    this.#path = path;
    if (path === undefined) return;
    this.#seen = stampOf(path);
    try {
      this.#extra = readAuthorities(path);
    } catch (error) {
      throw new FatalError(
        ExitCode.usage,
        `NODE_EXTRA_CA_CERTS=${path}: ${messageOf(error)}. A readable PEM file with certificates is allowed`,
        { cause: error },
      );
    }
  }

  /** How many the file adds. */
  get extraCount(): number {
    return this.#extra.length;
  }

  /** What the file adds, as PEM. */
  get extra(): readonly string[] {
    return this.#extra;
  }

  /**
   * Keeps copies for children in `folder`: a child that starts while the file is being replaced must not
   * trust less than the others.
   */
  keepIn(folder: string): void {
    try {
      mkdirSync(dirname(folder), { recursive: true, mode: 0o700 });
      // Jobs that are users of their own read it, and it is no secret.
      mkdirSync(folder, { recursive: true, mode: 0o755 });
    } catch {
      // Whoever opens the data folder says what is wrong with it; until then the file itself has to do.
      return;
    }
    this.#folder = folder;
    this.#writeCopies();
  }

  /** For NODE_EXTRA_CA_CERTS of children; undefined without a file. */
  get file(): string | undefined {
    if (this.#path === undefined) return undefined;
    return this.#folder === undefined ? this.#path : join(this.#folder, 'extra.pem');
  }

  /** A database with what Chromium does not trust by itself; undefined when there is nothing, or no folder. */
  browserDatabase(): string | undefined {
    if (this.#folder === undefined) return undefined;
    const path = join(this.#folder, 'cert9.db');
    if (!this.#hasDatabase) {
      const bundled = new Set(tls.getCACertificates('bundled').map(bare));
      const machine = tls.getCACertificates('system').filter((pem) => !bundled.has(bare(pem)));
      writeBrowserDatabase(path, [...machine, ...this.#extra]);
      this.#hasDatabase = true;
    }
    return path;
  }

  /** From now on connections of this process trust them, too. */
  trustHere(): void {
    this.#own ??= ownAuthorities();
    tls.setDefaultCACertificates([...this.#own, ...this.#extra]);
  }

  /** Reads the file again when it changes, until `signal` aborts. */
  async watch(signal: AbortSignal, changed: () => void, log: Log, everyMs = LOOK_EVERY_MS): Promise<void> {
    const path = this.#path;
    while (!signal.aborted) {
      await sleep(everyMs, signal).catch(() => {});
      if (path === undefined || signal.aborted) continue;
      const stamp = stampOf(path);
      if (stamp === this.#seen) continue;
      this.#seen = stamp;
      try {
        this.#extra = readAuthorities(path);
        this.#hasDatabase = false;
        this.#writeCopies();
        if (this.#own !== undefined) this.trustHere();
        log.info({ file: path, certificates: this.#extra.length }, 'certificate authorities loaded again');
        changed();
      } catch (error) {
        log.error(
          { file: path, detail: messageOf(error) },
          'the changed certificate authorities cannot be used; those from before stay in force',
        );
      }
    }
  }

  #writeCopies(): void {
    const { file } = this;
    if (file === undefined || this.#folder === undefined) return;
    writeFileSync(`${file}.new`, this.#extra.join('\n'), { mode: 0o644 });
    renameSync(`${file}.new`, file);
  }
}

/** @throws Error unless every certificate in it is whole */
function readAuthorities(path: string): string[] {
  const pem = readFileSync(path, 'utf8');
  const found = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  const begun = pem.match(/-----BEGIN CERTIFICATE-----/g)?.length ?? 0;
  if (begun === 0) throw new Error('it holds no certificate');
  if (found.length < begun) throw new Error(`certificate ${found.length + 1} in it is cut off`);
  for (const [index, each] of found.entries()) {
    try {
      void new X509Certificate(each);
    } catch (error) {
      throw new Error(`certificate ${index + 1} in it cannot be read`, { cause: error });
    }
  }
  return found;
}

/** Changes when the file is written, replaced, or reached by another link, as mounted secrets are. */
function stampOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? 'gone' : `${stat.mtimeMs}/${stat.size}/${stat.ino}`;
}

/** Without those of NODE_EXTRA_CA_CERTS when Node began: the file may lose some of them. */
function ownAuthorities(): string[] {
  const fromStart = new Set(tls.getCACertificates('extra').map(bare));
  const own = tls.getCACertificates('default').filter((pem) => !fromStart.has(bare(pem)));
  return [...new Set([...own, ...tls.getCACertificates('system')])];
}

const bare = (pem: string): string => pem.replace(/\s/g, '');
