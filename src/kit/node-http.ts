import type * as http from 'node:http';

/**
 * `node:http` without its WebSocket. An `import` of the module reads all its exports, and the getters
 * among them load Node's whole fetch client: 10 MB and 20 ms in each process that never uses it
 * (measured on Node 26.10).
 */
const module: typeof http = process.getBuiltinModule('node:http');

export const { Agent, createServer, request, STATUS_CODES, validateHeaderName, validateHeaderValue } = module;
