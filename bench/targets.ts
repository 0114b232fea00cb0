import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './blackbox.ts';
import { until } from './measure.ts';

const ECHO_MODULE = '/usr/lib/nginx/modules/ngx_http_echo_module.so';

/** What both sides probe: nginx plain and TLS 1.3 (1,024-byte body, and an answer after 50 ms), dnsmasq. */
export interface Targets {
  caFile: string;
  plainUrl: string;
  tlsUrl: string;
  tcp: { host: string; port: number };
  dns: { host: string; port: number };
  /** Answer after 50 ms. Undefined without nginx's echo module; a server in JavaScript would be too inexact. */
  slow: { plainUrl: string; tlsUrl: string } | undefined;
  stop(): void;
}

/** The programs that the benchmark needs and this machine lacks. */
export function missingPrograms(): string[] {
  return ['nginx', 'dnsmasq', 'openssl'].filter((name) => spawnSync(name, ['--version']).error);
}

export async function startTargets(): Promise<Targets> {
  const folder = await mkdtemp(join(tmpdir(), 'vedette-bench-'));
  const certificate = makeCertificate(folder);
  const [plain, tls, dns] = [await freePort(), await freePort(), await freePort()];
  await writeFile(join(folder, 'nginx.conf'), nginxConfig(folder, plain, tls));
  await writeFile(join(folder, 'index.html'), 'x'.repeat(1024));
  const children = [
    spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder], { stdio: 'inherit' }),
    spawn(
      'dnsmasq',
      [
        '-k',
        '-C',
        '/dev/null',
        '-p',
        `${dns}`,
        '-a',
        '127.0.0.1',
        '-z',
        '-R',
        '-h',
        '-A',
        '/bench.test/192.0.2.1',
      ],
      { stdio: 'inherit' },
    ),
  ];
  await until(() => accepts(plain));
  await until(() => accepts(dns));
  return {
    caFile: certificate.ca,
    plainUrl: `http://127.0.0.1:${plain}/`,
    tlsUrl: `https://127.0.0.1:${tls}/`,
    tcp: { host: '127.0.0.1', port: plain },
    dns: { host: '127.0.0.1', port: dns },
    slow: existsSync(ECHO_MODULE)
      ? { plainUrl: `http://127.0.0.1:${plain}/slow`, tlsUrl: `https://127.0.0.1:${tls}/slow` }
      : undefined,
    stop: () => children.forEach((child) => child.kill()),
  };
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } finally {
    socket.destroy();
  }
}

interface Certificate {
  ca: string;
  cert: string;
  key: string;
}

function makeCertificate(folder: string): Certificate {
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  execFileSync(
    'openssl',
    ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
      .concat(['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1'])
      .concat(['-keyout', key, '-out', cert]),
    { stdio: 'ignore' },
  );
  return { ca: cert, cert, key };
}

/** One worker, no session cache and no tickets: every handshake is a full one. */
const nginxConfig = (folder: string, plain: number, tls: number): string => `
${existsSync(ECHO_MODULE) ? `load_module ${ECHO_MODULE};` : ''}
daemon off; worker_processes 1;${process.getuid?.() === 0 ? ' user root;' : ''} pid ${folder}/nginx.pid; error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off; default_type text/plain;
  client_body_temp_path ${folder}/b; proxy_temp_path ${folder}/p; fastcgi_temp_path ${folder}/f;
  uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s;
  server {
    listen 127.0.0.1:${plain} backlog=4096; listen 127.0.0.1:${tls} ssl backlog=4096;
    ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem;
    ssl_protocols TLSv1.3; ssl_session_cache off; ssl_session_tickets off; root ${folder};
    ${existsSync(ECHO_MODULE) ? 'location /slow { echo_sleep 0.05; echo ok; }' : ''}
  }
}`;
