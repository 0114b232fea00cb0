import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { sandboxReport } from '../../../src/agent/sandbox/index.ts';
import { a, startDnsServer } from '../../support/dns-server.ts';
import { listenOn } from '../../support/targets/ports.ts';
import { RUNTIMES, startScripts } from './bench.ts';

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

test('nothing leads past it', async () => {
  const ports = !sandboxReport().missing.some((sentence) => /^Ports|^System calls/.test(sentence));
  if (!ports) {
    console.log(`not tested here: ${sandboxReport().missing.join('. ')}`);
    return;
  }
  const { run } = startScripts();
  const { printed } = await run(
    `
    const net = require('net'), dgram = require('dgram');
    // A handle of its own type, with what this process began with.
    const socket = new net.Socket();
    const fail = (s) => new Promise((resolve) => s.on('error', (error) => resolve(console.log(error.code, error.syscall))).on('connect', () => resolve(console.log('open'))));
    const direct = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(net.connect(1, '127.0.0.1').on('error', () => {})._handle), 'connect').value;
    console.log(/native code/.test(direct));
    const { Worker } = require('worker_threads');
    try {
      const worker = new Worker("require('net').connect(" + process.env.SITE + ", '127.0.0.1').on('connect', () => require('worker_threads').parentPort.postMessage('open')).on('error', (e) => require('worker_threads').parentPort.postMessage(e.code))", { eval: true });
      console.log(await new Promise((resolve) => worker.on('message', resolve).on('error', (e) => resolve(e.code))));
    } catch (error) { console.log(error.code); }
    try { await fail(dgram.createSocket('udp4').bind(0)); } catch (error) { console.log(error.code); }
    `,
    { SITE: String(sitePort) },
  );
  expect(printed).not.toContain('open');
  console.log(printed);
});
