/**
 * The agent's end of the wire. Hides the two transports (WebSocket, and long poll where sockets do not
 * pass) and the choice between them, proxies, hello and epochs, renewals, the offset between the clocks,
 * dead links, and reconnecting with jitter. The rest of the agent sees runs come in through a RunHolder
 * and may speak at any time; what a broken link loses is repaired by the inventory of the next hello.
 */
export { Connection, type ConnectionOptions, type ConnectionState } from './connection.ts';
export { isRefusal, LINK_TIMING, type Closed, type LinkTiming } from './link.ts';
export { ServiceClient } from './service-client.ts';
export { trySocket } from './socket-link.ts';
export { openTunnel } from './tunnel.ts';
