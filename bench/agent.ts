import { execFileSync, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket, WebSocketServer } from 'ws';
import { CONNECT_PATH, FromAgent, SUBPROTOCOL, type Job } from '../src/contract/index.ts';
import { newId } from '../src/kit/ids.ts';
import { freePort } from './blackbox.ts';
import { decode } from './decode.ts';
import { median, quantile, rssMbOf, until } from './measure.ts';
import type { Row } from './report.ts';

const STARTS = 5;
const OFFERS = 2000;
const root = new URL('..', import.meta.url).pathname;

/** The built agent, as images run it: start to ready, memory at rest, offer to accept. */
export async function benchAgent(): Promise<Row[]> {
  execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', join(root, 'src')]);
  const bareMs = median(Array.from({ length: 15 }, bareStartMs));
  const service = await startOfferingService();
  try {
    const readyMs: number[] = [];
    let agent = await startAgent(service.url);
    for (let i = 0; i < STARTS; i++) {
      readyMs.push(agent.readyMs);
      await agent.stop();
      agent = await startAgent(service.url);
    }
    await delay(3500);
    const restMb = rssMbOf(agent.pid);
    const bareMb = await bareRestMb();
    const dispatch = await service.measure(OFFERS);
    await agent.stop();
    const echo = await measureEcho(OFFERS, dispatch.offerBytes);
    return [
      row('agent: start to ready', median(readyMs), bareMs, 'ms', 'bare node', 6),
      row('agent: memory at rest', restMb, bareMb, 'MB', 'bare node', 2.2),
      row('agent: offer to accept, p50', median(dispatch.ms), median(echo), 'ms', 'bare ws echo'),
      row(
        'agent: offer to accept, p99',
        quantile(dispatch.ms, 0.99),
        quantile(echo, 0.99),
        'ms',
        'bare ws echo',
        2,
      ),
    ];
  } finally {
    service.stop();
  }
}

function row(name: string, ours: number, theirs: number, unit: string, peer: string, atMost?: number): Row {
  const shown = (value: number): string => `${value.toPrecision(3)} ${unit}`;
  return {
    name,
    ours: shown(ours),
    peer: `${shown(theirs)} (${peer})`,
    ratio: ours / theirs,
    ...(atMost === undefined ? {} : { goal: { atMost } }),
  };
}

function bareStartMs(): number {
  const begun = performance.now();
  spawnSync(process.execPath, ['-e', '0']);
  return performance.now() - begun;
}

async function bareRestMb(): Promise<number> {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1e6)']);
  await delay(3500);
  const mb = rssMbOf(child.pid!);
  child.kill();
  return mb;
}

async function startAgent(url: string): Promise<{ pid: number; readyMs: number; stop(): Promise<void> }> {
  const [port, dataDir] = [await freePort(), await mkdtemp(join(tmpdir(), 'vedette-bench-'))];
  const begun = performance.now();
  const child = spawn(process.execPath, [join(root, 'dist/cli/main.js'), 'agent'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env['PATH'],
      API_KEY: `pl_${'0'.repeat(32)}`,
      AGENT_SERVICE_URL: url,
      AGENT_DATA_DIR: dataDir,
      AGENT_HEALTH_PORT: String(port),
      AGENT_HEALTH_HOST: '127.0.0.1',
      LOG_LEVEL: 'error',
    },
  });
  let readyMs = 0;
  await until(async () => {
    const response = await fetch(`http://127.0.0.1:${port}/-/readiness`);
    readyMs = performance.now() - begun;
    return response.ok;
  }, 2);
  return {
    pid: child.pid!,
    readyMs,
    stop: async () => {
      child.kill();
      await once(child, 'exit');
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

interface OfferingService {
  url: string;
  measure(offers: number): Promise<{ ms: number[]; offerBytes: number }>;
  stop(): void;
}

/** The least service that an agent can talk to: welcomes it, offers jobs, takes every result. */
async function startOfferingService(): Promise<OfferingService> {
  const http = createServer((request, response) => void takeResults(request, response));
  const sockets = new WebSocketServer({
    server: http,
    path: CONNECT_PATH,
    handleProtocols: () => SUBPROTOCOL,
  });
  let agent: WebSocket | undefined;
  let onAccept: (() => void) | undefined;
  sockets.on('connection', (socket) => {
    agent = socket;
    socket.on('message', (frame: Buffer) => {
      const message = FromAgent.parse(JSON.parse(frame.toString()));
      if (message.t === 'hello') socket.send(JSON.stringify(welcome(message.id, message.d.clock.t0)));
      if (message.t === 'accept') onAccept?.();
    });
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    measure: async (offers) => {
      const ms: number[] = [];
      let offerBytes = 0;
      for (let i = 0; i < offers; i++) {
        const frame = JSON.stringify(envelope('offer', { jobs: [job(i + 1)] }));
        const accepted = new Promise<void>((resolve) => (onAccept = resolve));
        const begun = performance.now();
        agent?.send(frame);
        await accepted;
        ms.push(performance.now() - begun);
        offerBytes = frame.length;
        await delay(2);
      }
      return { ms, offerBytes };
    },
    stop: () => {
      sockets.close();
      http.close();
      http.closeAllConnections();
    },
  };
}

async function takeResults(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { results } = JSON.parse(decode(Buffer.concat(chunks), request.headers['content-encoding'])) as {
    results: { resultId: string }[];
  };
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ receipts: results.map(({ resultId }) => ({ resultId, status: 'stored' })) }));
}

const envelope = (t: string, d: object, re?: string): object => ({ v: 1, t, id: newId(), re, d });

function welcome(re: string, t0: number): object {
  const now = Date.now();
  return envelope(
    'welcome',
    {
      sid: newId(),
      epoch: 1,
      protocol: 1,
      features: [],
      location: 'bench',
      clock: { t0, t1: now, t2: now },
      renewEveryMs: 20_000,
      leaseMs: 300_000,
      acceptMs: 10_000,
      resultBatch: { maxItems: 100, maxBytes: 2 * 1024 * 1024, flushMs: 1000 },
      minAgentVersion: null,
      drop: [],
    },
    re,
  );
}

/** A TCP check of a port where nothing listens: refused at once, so that the probe adds no load. */
function job(runId: number): Job {
  return {
    runId,
    token: 1,
    attempt: 0,
    sequenceId: newId(),
    sessionId: newId(),
    lane: 1,
    checkId: newId(),
    checkType: 'TCP',
    name: 'bench',
    location: 'bench',
    proxyUrl: null,
    scheduledAt: new Date().toISOString(),
    timeoutMs: 5000,
    spec: { request: { hostname: '127.0.0.1', port: 9 }, description: 'x'.repeat(1200) },
  };
}

async function measureEcho(count: number, bytes: number): Promise<number[]> {
  const child = fork(new URL('echo-server.ts', import.meta.url));
  const [port] = (await once(child, 'message')) as [number];
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: false });
  await once(socket, 'open');
  const frame = 'x'.repeat(bytes);
  const ms: number[] = [];
  for (let i = 0; i < count; i++) {
    const begun = performance.now();
    socket.send(frame);
    await once(socket, 'message');
    ms.push(performance.now() - begun);
    await delay(2);
  }
  socket.close();
  child.kill();
  return ms;
}
