import type { AddressInfo } from 'node:net';
import { WebSocketServer } from 'ws';

/** Sends every frame back; tells its port over IPC. */
const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: false });
server.on('connection', (socket) => socket.on('message', (frame: Buffer) => socket.send(frame)));
server.on('listening', () => process.send?.((server.address() as AddressInfo).port));
