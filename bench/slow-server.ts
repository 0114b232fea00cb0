import { readFileSync } from 'node:fs';
import { createServer as createPlain, type AddressInfo, type Socket } from 'node:net';
import { createServer as createTls } from 'node:tls';

/** Answers every request 50 ms after it came in, on a plain and on a TLS port, printed as JSON. */
const [certFile = '', keyFile = ''] = process.argv.slice(2);
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok';

function answerLate(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  socket.once('data', () => setTimeout(() => socket.end(ANSWER), 50));
}

const plain = createPlain(answerLate).listen({ port: 0, host: '127.0.0.1', backlog: 4096 });
const tls = createTls({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, answerLate).listen({
  port: 0,
  host: '127.0.0.1',
  backlog: 4096,
});
const ready = [plain, tls].map((server) => new Promise((resolve) => server.once('listening', resolve)));
await Promise.all(ready);
const portOf = (server: { address(): unknown }): number => (server.address() as AddressInfo).port;
process.stdout.write(JSON.stringify({ plain: portOf(plain), tls: portOf(tls) }) + '\n');
