import { createServer as createHttpServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { createSecureServer } from 'node:http2';
import { createServer } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { sandboxReport } from '../../../src/agent/sandbox/index.ts';
import type { Job, RunResult } from '../../../src/contract/index.ts';
import { PROBE_ENTRY } from '../../../src/agent/probes/program.ts';
import { standInJob, startTestAgent, temporaryFolder } from '../../support/agent.ts';
import { startFakeService } from '../../support/fake-service.ts';
import { describeUnless } from '../../support/programs.ts';
import { a, startDnsServer } from '../../support/dns-server.ts';
import { makeCertificates } from '../../support/targets/certificates.ts';
import { listenOn } from '../../support/targets/ports.ts';
import { lacksRuntime, logOf, RUNTIMES, startScripts } from './bench.ts';

/** User code behind all its walls, and where it can get to. */

const site = createHttpServer((request, response) => {
  if (request.url === '/to-metadata') {
    response.writeHead(302, { location: 'http://169.254.169.254/latest/' }).end();
  } else response.end(`hello ${request.url}`);
});
const echo = createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  socket.pipe(socket);
});
let sitePort: number;
let echoPort: number;
beforeAll(async () => {
  sitePort = await listenOn(site);
  echoPort = await listenOn(echo);
});
afterAll(() => {
  site.close();
  echo.close();
});

/** A script's view of an error. */
const SAY = `const say = (error) => console.log([error.code, error.message, error.cause?.code, error.cause?.message].filter(Boolean).join(' | '));`;

describe.each(RUNTIMES.map((runtime) => [runtime.id, runtime] as const))('runtime %s', (_id, runtime) => {
  test('reaches what it may, by every way', async () => {
    const { run } = startScripts({}, runtime);
    const { printed } = await run(
      `
      const net = require('net'), http = require('http');
      const site = process.env.SITE, echo = process.env.ECHO;
      const get = (options) => new Promise((resolve, reject) => http.get(options, (response) => {
        let text = '';
        response.on('data', (chunk) => (text += chunk)).on('end', () => resolve(text));
      }).on('error', reject));
      console.log(await get('http://127.0.0.1:' + site + '/http'));
      console.log(await get({ host: 'localhost', port: site, path: '/by-name', agent: false }));
      console.log(await (await fetch('http://localhost:' + site + '/fetch')).text());
      const socket = net.connect(Number(echo), '127.0.0.1');
      socket.write('before it is open, ');
      let heard = '';
      socket.setEncoding('utf8').on('data', (chunk) => (heard += chunk));
      socket.on('connect', () => { console.log(socket.remoteAddress, socket.remotePort === Number(echo)); socket.end('and after'); });
      await new Promise((resolve, reject) => socket.on('end', resolve).on('error', reject));
      console.log(heard);`,
      { SITE: String(sitePort), ECHO: String(echoPort) },
    );
    expect(printed.split('\n')).toEqual([
      'hello /http',
      'hello /by-name',
      'hello /fetch',
      '127.0.0.1 true',
      'before it is open, and after',
    ]);
  });

  test('has TLS, HTTP/2, an upgrade of an open connection and its own context on it', async () => {
    using folder = temporaryFolder();
    const { good } = await makeCertificates(folder.path);
    const options = { key: readFileSync(good.key), cert: readFileSync(good.chain), allowHTTP1: true };
    const server = createSecureServer(options, (request, response) => {
      response.end(
        `${request.httpVersion} for ${(request.socket as TLSSocket & { servername?: string }).servername}`,
      );
    });
    const port = await listenOn(server);
    onTestFinished(() => void server.close());
    const { run } = startScripts({}, runtime);
    const { printed } = await run(
      `
      const https = require('https'), http2 = require('http2'), tls = require('tls'), net = require('net');
      const { AsyncLocalStorage } = require('async_hooks');
      const port = Number(process.env.PORT);
      const textOf = async (stream) => { let text = ''; for await (const chunk of stream) text += chunk; return text; };
      console.log(await textOf(await new Promise((resolve, reject) =>
        https.get({ host: 'localhost', port, rejectUnauthorized: false, agent: false }, resolve).on('error', reject))));
      const session = http2.connect('https://localhost:' + port, { rejectUnauthorized: false });
      console.log(await textOf(session.request({ ':path': '/' }).end()));
      session.close();
      const plain = net.connect(port, '127.0.0.1');
      await new Promise((resolve) => plain.once('connect', resolve));
      const secured = tls.connect({ socket: plain, servername: 'sni.vedette.test', rejectUnauthorized: false });
      secured.end('GET / HTTP/1.1\\r\\nhost: x\\r\\nconnection: close\\r\\n\\r\\n');
      console.log((await textOf(secured)).split('\\r\\n\\r\\n')[1].trim());
      const storage = new AsyncLocalStorage();
      console.log(await storage.run('mine', () => new Promise((resolve) => {
        const socket = net.connect(port, 'localhost', () => { resolve(storage.getStore()); socket.destroy(); });
      })));
      console.log(JSON.stringify(await require('util').promisify(require('dns').lookup)('localhost', 4)));`,
      { PORT: String(port) },
    );
    expect(printed.split('\n')).toEqual([
      '1.1 for localhost',
      '2.0 for localhost',
      expect.stringContaining('1.1 for sni.vedette.test'),
      'mine',
      '{"address":"127.0.0.1","family":4}',
    ]);
  });

  test('fails as it would without anything in between', async () => {
    const { run } = startScripts({}, runtime);
    const { printed } = await run(`${SAY}
      const net = require('net');
      const fail = (...where) => new Promise((resolve) => net.connect(...where).on('error', resolve));
      const refused = await fail(1, '127.0.0.1');
      console.log(refused.code, refused.syscall, refused.address, refused.port, refused.message);
      const both = await fail({ port: 1, host: 'localhost' });
      console.log(both.code, both.errors.map(({ message }) => message).join(', '));
      const unknown = await fail(80, 'nobody.invalid');
      console.log(unknown.code, unknown.syscall, unknown.hostname, unknown.message);
      await fetch('http://127.0.0.1:1/').catch(say);`);
    expect(printed.split('\n')).toEqual([
      'ECONNREFUSED connect 127.0.0.1 1 connect ECONNREFUSED 127.0.0.1:1',
      'ECONNREFUSED connect ECONNREFUSED 127.0.0.1:1, connect ECONNREFUSED ::1:1',
      'ENOTFOUND getaddrinfo nobody.invalid getaddrinfo ENOTFOUND nobody.invalid',
      expect.stringContaining('fetch failed'),
    ]);
  });

  test('does not reach what is blocked, and is told why', async () => {
    const { run } = startScripts({ blocked: '10.0.0.0/8 localhost' }, runtime);
    const { printed, answer } = await run(
      `${SAY}
      const net = require('net'), tls = require('tls');
      const fail = (socket) => new Promise((resolve) => socket.on('error', (error) => resolve(say(error))));
      await fail(net.connect(5432, '10.1.2.3'));
      await fail(tls.connect({ host: '::ffff:10.1.2.3', port: 443 }));
      await fail(net.connect(Number(process.env.SITE), 'localhost'));
      await fetch('http://127.0.0.1:' + process.env.SITE + '/to-metadata').catch(say);`,
      { SITE: String(sitePort) },
    );
    expect(answer.error).toBeNull();
    expect(printed).toContain(
      'ERR_TARGET_BLOCKED | 10.1.2.3 port 5432 is blocked by 10.0.0.0/8 in BLOCKED_TARGETS of this agent\n',
    );
    expect(printed).toMatch(/ERR_TARGET_BLOCKED \| ::ffff:10\.1\.2\.3 port 443 is blocked by 10\.0\.0\.0\/8/);
    expect(printed).toMatch(
      /ERR_TARGET_BLOCKED \| localhost \(127\.0\.0\.1\) port \d+ is blocked by localhost/,
    );
    expect(printed).toMatch(
      /fetch failed \| ERR_TARGET_BLOCKED \| 169\.254\.169\.254 port 80 is where a cloud/,
    );
    expect(printed.match(/^WARN .*/gm)).toHaveLength(4);
  });
});

test('a script that fails for want of what is blocked is no failure of the target', async () => {
  const { run } = startScripts({ blocked: '10.0.0.0/8' });
  await expect(run(`await fetch('http://10.1.2.3/')`)).rejects.toMatchObject({
    code: 'TARGET_BLOCKED',
    message: '10.1.2.3 port 80 is blocked by 10.0.0.0/8 in BLOCKED_TARGETS of this agent',
  });
});

test('a name is judged by what it leads to, at the moment of the connection', async () => {
  const answers = ['127.0.0.1', '10.9.9.9'];
  const dns = await startDnsServer(({ name, type }) => ({
    answers: type === 'A' ? [a(name, answers.shift() ?? '10.9.9.9', 0)] : [],
  }));
  onTestFinished(() => dns.close());
  const { run } = startScripts({ blocked: '10.0.0.0/8', servers: [dns.text] });
  const { printed } = await run(
    `${SAY}
    const url = 'http://rebinding.example:' + process.env.SITE + '/';
    console.log(await (await fetch(url, { headers: { connection: 'close' } })).text());
    await fetch(url).catch(say);`,
    { SITE: String(sitePort) },
  );
  expect(printed).toContain('hello /\n');
  expect(printed).toMatch(/ERR_TARGET_BLOCKED \| rebinding\.example \(10\.9\.9\.9\) port \d+ is blocked/);
});

const { missing } = sandboxReport();
const open = missing.some((sentence) => /^(Ports|System calls)/.test(sentence))
  ? missing.join('. ')
  : undefined;

describeUnless(open ?? lacksRuntime, 'past it', () => {
  test('leads nothing: neither a thread that knows nothing of it, nor datagrams', async () => {
    const { check } = startScripts();
    const report = await check(
      'MULTI_STEP',
      `
      const { Worker } = require('node:worker_threads');
      const dgram = require('node:dgram');
      const worker = new Worker(
        "const say = (text) => require('node:worker_threads').parentPort.postMessage(text);" +
        "require('node:net').connect(${sitePort}, '127.0.0.1').on('connect', () => say('open')).on('error', (e) => say(e.code + ' ' + e.syscall))",
        { eval: true });
      console.log('thread:', await new Promise((resolve) => worker.on('message', resolve)));
      const socket = dgram.createSocket('udp4');
      const sent = await new Promise((resolve) => {
        socket.on('error', (error) => resolve(error.code));
        socket.send('x', ${sitePort}, '127.0.0.1', (error) => resolve(error?.code ?? 'open'));
      });
      socket.close();
      console.log('datagrams:', sent);`,
    );
    expect(logOf(report)).toEqual([
      'thread: EACCES connect',
      expect.stringMatching(/^datagrams: (EPERM|EACCES|EAFNOSUPPORT)$/),
    ]);
  });
});

describe('through a whole agent', () => {
  const apiJob = (localSetupScript: string): Job =>
    standInJob(
      { request: { url: `http://127.0.0.1:${sitePort}/`, assertions: [] }, localSetupScript },
      { checkType: 'API', name: 'an API', timeoutMs: 60_000 },
    );

  async function agentWith(env: Record<string, string>) {
    const service = await startFakeService();
    const agent = await startTestAgent(service, env, {
      probeEntry: PROBE_ENTRY,
      findRuntimes: () => RUNTIMES.slice(0, 1),
    });
    onTestFinished(async () => {
      await agent[Symbol.asyncDispose]();
      await service[Symbol.asyncDispose]();
    });
    await agent.ready;
    const run = (script: string): Promise<RunResult> => {
      const job = apiJob(script);
      service.offer(job);
      return service.resultOf(job);
    };
    return { agent, run };
  }

  test('its own port and what its owner blocked are errors of the run that name the reason', async () => {
    const { agent, run } = await agentWith({ BLOCKED_TARGETS: '127.0.0.9' });
    const own = await run(`await fetch('http://127.0.0.1:${agent.healthPort}/metrics')`);
    expect(own.flags).toMatchObject({ hasErrors: true, hasFailures: false });
    expect(own.errors[0]).toMatchObject({
      code: 'TARGET_BLOCKED',
      message: expect.stringContaining('belongs to this agent itself'),
    });
    const blocked = await run(`await fetch('http://127.0.0.9:${sitePort}/')`);
    expect(blocked.errors[0]).toMatchObject({
      code: 'TARGET_BLOCKED',
      message: `127.0.0.9 port ${sitePort} is blocked by 127.0.0.9 in BLOCKED_TARGETS of this agent`,
    });
    expect((await run(`await fetch('http://127.0.0.1:${sitePort}/')`)).errors).toEqual([]);
  });

  test('SCRIPT_EGRESS=open: the policy is left to the network', async () => {
    const { run } = await agentWith({ BLOCKED_TARGETS: '127.0.0.9', SCRIPT_EGRESS: 'open' });
    const { errors } = await run(`await fetch('http://127.0.0.9:${sitePort}/')`);
    // Nobody listens there; the policy would have said something else.
    expect(errors[0]!.message).toContain(`connect ECONNREFUSED 127.0.0.9:${sitePort}`);
  });
});
