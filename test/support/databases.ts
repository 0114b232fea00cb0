/**
 * The two engines of the store for tests: the embedded one in a temporary folder, and a private
 * PostgreSQL cluster in another. Each test file migrates once and copies that state for every test.
 */
import { execFile, execFileSync } from 'node:child_process';
import { chownSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import { createLog } from '../../src/kit/log.ts';
import type { Store } from '../../src/service/ports.ts';
import { openStore } from '../../src/service/store/index.ts';

const run = promisify(execFile);

/** An empty, migrated database that `open` opens, as often as wanted. */
export interface Place {
  readonly dataDir: string;
  readonly databaseUrl: string | undefined;
  open(): Promise<Store>;
}

export interface Engine {
  readonly name: 'embedded' | 'postgres';
  start(): Promise<void>;
  fresh(): Promise<Place>;
  stop(): Promise<void>;
}

export const silentLog = createLog({ level: 'silent', format: 'json', name: 'test' });

/** Both engines, or the embedded one alone and one printed line where PostgreSQL is not installed. */
export function engines(): Engine[] {
  const binaries = findPostgres();
  if (binaries !== undefined) return [embeddedEngine(), new PostgresServer(binaries)];
  console.log('PostgreSQL tests skipped: no initdb found (Debian: apt install postgresql-15)');
  return [embeddedEngine()];
}

function place(dataDir: string, databaseUrl?: string): Place {
  return { dataDir, databaseUrl, open: () => openStore({ dataDir, databaseUrl, log: silentLog }) };
}

function embeddedEngine(): Engine {
  const root = mkdtempSync(join(tmpdir(), 'vedette-store-'));
  const template = join(root, 'template');
  let made = 0;
  return {
    name: 'embedded',
    start: async () => (await place(template).open()).close(),
    fresh: () => {
      const dataDir = join(root, String(++made));
      mkdirSync(dataDir);
      cpSync(join(template, 'store'), join(dataDir, 'store'), { recursive: true });
      return Promise.resolve(place(dataDir));
    },
    stop: () => Promise.resolve(rmSync(root, { recursive: true, force: true })),
  };
}

/** A cluster of its own on a free port of 127.0.0.1; `restart` is an outage. */
export class PostgresServer implements Engine {
  readonly name = 'postgres';
  readonly #bin: string;
  readonly #root = mkdtempSync(join(tmpdir(), 'vedette-postgres-'));
  readonly #data = join(this.#root, 'data');
  /** PostgreSQL refuses to run as root. */
  readonly #owner = process.getuid?.() === 0 ? userIds('postgres') : undefined;
  #port = 0;
  #made = 0;

  constructor(bin: string) {
    this.#bin = bin;
  }

  async start(): Promise<void> {
    if (this.#owner !== undefined) chownSync(this.#root, this.#owner.uid, this.#owner.gid);
    await this.#run('initdb', ['-D', this.#data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--no-sync']);
    this.#port = await freePort();
    await this.#up();
    const store = await place(this.#root, await this.#database('template', 'template0')).open();
    await store.close();
  }

  async fresh(): Promise<Place> {
    return place(this.#root, await this.#database(`test${++this.#made}`, 'template'));
  }

  /** Ends every connection at once, as a crash does, and comes back. */
  async restart(): Promise<void> {
    await this.#run('pg_ctl', ['-D', this.#data, '-m', 'immediate', '-w', 'stop']);
    await this.#up();
  }

  async stop(): Promise<void> {
    await this.#run('pg_ctl', ['-D', this.#data, '-m', 'immediate', '-w', 'stop']);
    rmSync(this.#root, { recursive: true, force: true });
  }

  async #up(): Promise<void> {
    const options = `-c listen_addresses=127.0.0.1 -c port=${this.#port} -c unix_socket_directories=${this.#root}`;
    const log = join(this.#root, 'log');
    await this.#run('pg_ctl', ['-D', this.#data, '-l', log, '-o', options, '-w', 'start']);
  }

  async #database(name: string, template: string): Promise<string> {
    const admin = new pg.Client({ connectionString: this.#url('postgres') });
    await admin.connect();
    await admin.query(`create database ${name} template ${template}`);
    await admin.end();
    return this.#url(name);
  }

  #url(database: string): string {
    return `postgres://postgres@127.0.0.1:${this.#port}/${database}`;
  }

  async #run(program: string, args: string[]): Promise<void> {
    await run(join(this.#bin, program), args, { cwd: this.#root, ...this.#owner });
  }
}

function findPostgres(): string | undefined {
  const debian = '/usr/lib/postgresql';
  const versions = existsSync(debian)
    ? readdirSync(debian).map((version) => join(debian, version, 'bin'))
    : [];
  const folders = [...versions.toReversed(), ...(process.env['PATH'] ?? '').split(':')];
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'pg_ctl')));
}

function userIds(name: string): { uid: number; gid: number } {
  const id = (flag: string): number => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
