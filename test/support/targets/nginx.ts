import { closeSync, openSync, ftruncateSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mustRun, startProgram, type RunningProgram } from '../programs.ts';
import type { Certificate, Certificates } from './certificates.ts';
import { accepts, freePort, LOOPBACK_6 } from './ports.ts';

/** One port per way to serve; every port serves the same pages. */
export interface Nginx extends RunningProgram {
  plain: number;
  ipv6Only: number;
  tls: Record<Exclude<keyof Certificates, 'trusted'>, number>;
  /** Two names on one port, a certificate each; unknown names are refused in the handshake. */
  sni: number;
  tls12Only: number;
  tls13Only: number;
  tls11Only: number;
  http2: number;
  /** Answers 400 without a client certificate. */
  clientCertificate: number;
}

export const BIG_BODY_BYTES = 30 * 1024 * 1024;
export const BASIC_AUTH = { username: 'watch', password: 'p:ä ss' } as const;

/** Starts nginx with all its servers; `folder` takes configuration, pages and logs. */
export async function startNginx(folder: string, certificates: Certificates): Promise<Nginx> {
  await writePages(folder);
  const { trusted, ...leaves } = certificates;
  const servers: string[] = [];
  const serve = async (directives = '', host = '127.0.0.1', flags = ''): Promise<number> => {
    const port = await freePort(host);
    const address = host.includes(':') ? `[${host}]:${port} ipv6only=on` : `${host}:${port}`;
    servers.push(`server { listen ${address} ${flags}; ${directives} include ${folder}/pages.conf; }`);
    return port;
  };
  const tls = (leaf: Certificate, more = '', flags = ''): Promise<number> =>
    serve(`${certificate(leaf)} ${more}`, '127.0.0.1', `ssl ${flags}`);

  const tlsPorts: Partial<Nginx['tls']> = {};
  for (const name of Object.keys(leaves) as (keyof typeof leaves)[]) tlsPorts[name] = await tls(leaves[name]);
  const { good } = leaves;
  const sni = await tls(good, 'server_name good.vedette.test;');
  servers.push(
    `server { listen 127.0.0.1:${sni} ssl; server_name any.wild.vedette.test;` +
      ` ${certificate(leaves.wildcard)} include ${folder}/pages.conf; }`,
    `server { listen 127.0.0.1:${sni} ssl default_server; ssl_reject_handshake on; }`,
  );
  const ports: Omit<Nginx, keyof RunningProgram> = {
    plain: await serve(),
    ipv6Only: await serve('', LOOPBACK_6),
    tls: tlsPorts as Nginx['tls'],
    sni,
    tls12Only: await tls(good, 'ssl_protocols TLSv1.2;'),
    tls13Only: await tls(good, 'ssl_protocols TLSv1.3;'),
    tls11Only: await tls(good, 'ssl_protocols TLSv1.1; ssl_ciphers DEFAULT@SECLEVEL=0;'),
    http2: await tls(good, '', 'http2'),
    clientCertificate: await tls(good, `ssl_verify_client on; ssl_client_certificate ${trusted};`),
  };
  const config = join(folder, 'nginx.conf');
  writeFileSync(config, mainConfig(folder, servers));
  const running = await startProgram('nginx', ['-c', config, '-p', folder, '-e', 'stderr'], () =>
    accepts(ports.plain),
  );
  return Object.assign(running, ports);
}

const certificate = ({ chain, key }: Certificate): string =>
  `ssl_certificate ${chain}; ssl_certificate_key ${key};`;

function mainConfig(folder: string, servers: readonly string[]): string {
  // A worker of root drops to nobody by default, who cannot enter a temporary folder.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  return `${user} daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log stderr error;
events { worker_connections 512; }
http {
  access_log off; default_type text/plain; server_tokens off;
  client_body_temp_path ${folder}/t1; proxy_temp_path ${folder}/t2; fastcgi_temp_path ${folder}/t3;
  uwsgi_temp_path ${folder}/t4; scgi_temp_path ${folder}/t5;
  gzip_types text/plain application/json; gzip_min_length 100;
  ${servers.join('\n  ')}
}
`;
}

async function writePages(folder: string): Promise<void> {
  const root = join(folder, 'pages');
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, 'hello.txt'), 'hello from nginx\n');
  writeFileSync(join(root, 'long.txt'), 'a line that compresses well\n'.repeat(4000));
  writeFileSync(join(root, 'data.json'), JSON.stringify({ status: 'up', items: [1, 2, 3] }));
  const big = openSync(join(root, 'big.bin'), 'w');
  ftruncateSync(big, BIG_BODY_BYTES);
  closeSync(big);
  const hash = await mustRun('openssl', ['passwd', '-apr1', BASIC_AUTH.password]);
  writeFileSync(join(folder, 'passwords'), `${BASIC_AUTH.username}:${hash}`);
  const statuses = [200, 201, 204, 301, 304, 400, 401, 403, 404, 410, 418, 429, 500, 502, 503, 504]
    .map((status) => `location = /status/${status} { return ${status}; }`)
    .join('\n');
  writeFileSync(
    join(folder, 'pages.conf'),
    `root ${root};
location = / { return 200 "hello from nginx\\n"; }
location = /gzip/long.txt { gzip on; alias ${root}/long.txt; }
location = /private { auth_basic "watchers"; auth_basic_user_file ${folder}/passwords; try_files /hello.txt =404; }
location = /moved { return 302 /hello.txt; }
location = /moved/twice { return 301 /moved; }
location = /moved/loop { return 302 /moved/loop; }
location = /limited { limit_rate 1m; try_files /long.txt =404; }
${statuses}
`,
  );
}
