import { spawn, spawnSync } from 'node:child_process';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { cpuMsOf, until } from './measure.ts';

const PROGRAM = 'prometheus-blackbox-exporter';

/** prometheus-blackbox-exporter as the peer: the same targets, asked over its own /probe. */
export interface Blackbox {
  /** CPU that the exporter has used so far, ms. */
  cpuMs(): number;
  /** One probe; resolves to its metrics text. @throws when the probe failed */
  probe(module: string, target: string): Promise<string>;
  stop(): Promise<void>;
}

const config = (caFile: string): string => `modules:
  http_plain: { prober: http, timeout: 10s, http: { preferred_ip_protocol: ip4 } }
  http_tls: { prober: http, timeout: 10s, http: { preferred_ip_protocol: ip4, tls_config: { ca_file: ${caFile} } } }
  tcp_connect: { prober: tcp, timeout: 5s, tcp: { preferred_ip_protocol: ip4 } }
  dns_udp: { prober: dns, timeout: 5s, dns: { query_name: bench.test, query_type: A, preferred_ip_protocol: ip4 } }
`;

/** @returns undefined where the Debian package is not installed */
export async function startBlackbox(caFile: string): Promise<Blackbox | undefined> {
  if (spawnSync(PROGRAM, ['--version']).error) return undefined;
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'));
  await writeFile(join(folder, 'bb.yml'), config(caFile));
  const port = await freePort();
  const child = spawn(
    PROGRAM,
    [
      `--config.file=${join(folder, 'bb.yml')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=error',
    ],
    { stdio: 'ignore' },
  );
  const dispatcher = new Agent({ connections: 64, pipelining: 1 });
  const get = async (path: string): Promise<string> => {
    const response = await request(`http://127.0.0.1:${port}${path}`, { dispatcher });
    return response.body.text();
  };
  await until(() => get('/-/healthy').then(() => true));
  return {
    cpuMs: () => cpuMsOf(child.pid!),
    probe: async (module, target) => {
      const text = await get(`/probe?module=${module}&target=${encodeURIComponent(target)}`);
      if (!text.includes('\nprobe_success 1')) throw new Error(`blackbox could not probe ${target}`);
      return text;
    },
    stop: async () => {
      child.kill();
      await dispatcher.close();
    },
  };
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
