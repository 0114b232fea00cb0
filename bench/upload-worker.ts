import { statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { pino } from 'pino';
import { ArtifactUploader } from '../src/agent/artifacts/index.ts';
import { ServiceClient } from '../src/agent/connection/index.ts';
import type { SpooledFile } from '../src/agent/spool/index.ts';
import { newId } from '../src/kit/ids.ts';
import { rssMbOf } from './measure.ts';

/** Sends one file to the sink, in a process of its own: argv are the sink's port, the file, its hash. */
export interface UploadFigures {
  ms: number;
  /** Largest memory of the process, over what it had before it began, MB. */
  addedMb: number;
}

const [port = '', path = '', sha256 = ''] = process.argv.slice(2);
const file: SpooledFile = {
  resultId: newId(),
  name: 'trace.zip',
  path,
  size: statSync(path).size,
  sha256,
  contentType: 'application/zip',
};
const client = new ServiceClient({
  serviceUrl: `http://127.0.0.1:${port}`,
  apiKey: `pl_${'0'.repeat(32)}`,
  version: '0.0.0',
  proxies: { httpProxy: undefined, httpsProxy: undefined, noProxy: '' },
});
const stop = new AbortController();
const waiting = new Set([file]);
const source = {
  dueFiles: () => waiting,
  settleFile: (sent: SpooledFile) => {
    waiting.delete(sent);
    stop.abort();
  },
  onChange: () => () => {},
};
// What the start needed is given back.
await delay(500);
const idleMb = rssMbOf(process.pid);
let mostMb = idleMb;
const watch = setInterval(() => (mostMb = Math.max(mostMb, rssMbOf(process.pid))), 5);
const begun = performance.now();
await new ArtifactUploader(source, client, pino({ level: 'warn' })).run(stop.signal);
const ms = performance.now() - begun;
clearInterval(watch);
client.close();
const figures: UploadFigures = { ms, addedMb: Math.max(mostMb, rssMbOf(process.pid)) - idleMb };
console.log(JSON.stringify(figures));
