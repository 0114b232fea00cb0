import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { crc32 } from 'node:zlib';

/** Stands in for every program that Playwright downloads. */
const PROGRAM = '#!/bin/sh\necho Chromium 7.0 of the mirror\n';

/** The program in each archive, by its name below the mirror; old and new layouts, both processors. */
const PROGRAMS: readonly [RegExp, string][] = [
  [/\/chrome-linux64\.zip$/, 'chrome-linux64/chrome'],
  [/\/chrome-headless-shell-linux64\.zip$/, 'chrome-headless-shell-linux64/chrome-headless-shell'],
  [/\/chromium-linux(-arm64)?\.zip$/, 'chrome-linux/chrome'],
  [/\/chromium-headless-shell-linux(-arm64)?\.zip$/, 'chrome-linux/headless_shell'],
  [/\/ffmpeg-linux(-arm64)?\.zip$/, 'ffmpeg-linux'],
  [/\/firefox-[\w.-]+\.zip$/, 'firefox/firefox'],
];

export interface BrowserMirror extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** What was asked for, in order. */
  readonly paths: string[];
  /** While it is true no archive is given. */
  isAway: boolean;
}

/**
 * A mirror of Playwright's downloads, as PLAYWRIGHT_DOWNLOAD_HOST names one.
 *
 * @param tls certificate and key, for a mirror at https://
 */
export async function startBrowserMirror(
  program = PROGRAM,
  tls?: { cert: Buffer; key: Buffer },
): Promise<BrowserMirror> {
  const paths: string[] = [];
  const answer: RequestListener = ({ url = '' }, response) => {
    paths.push(url);
    if (mirror.isAway) return void response.writeHead(503).end();
    const found = PROGRAMS.find(([path]) => path.test(url));
    if (found === undefined) return void response.writeHead(404).end();
    const zip = zipOf(found[1], program);
    response.writeHead(200, { 'content-length': zip.length }).end(zip);
  };
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  const url = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  const mirror: BrowserMirror = { url, port, paths, isAway: false, [Symbol.asyncDispose]: stop };
  return mirror;
}

/** One program, stored as it is. The numbers are offsets of the ZIP format. */
function zipOf(name: string, text: string): Buffer {
  const [file, data] = [Buffer.from(name), Buffer.from(text)];
  const common = Buffer.alloc(26);
  common.writeUInt16LE(20, 0);
  common.writeUInt32LE(crc32(data), 10);
  common.writeUInt32LE(data.length, 14);
  common.writeUInt32LE(data.length, 18);
  common.writeUInt16LE(file.length, 22);
  const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, file, data]);
  const attributes = Buffer.alloc(14);
  // A regular file that may be run, as Unix says it.
  attributes.writeUInt32LE((0o100755 << 16) >>> 0, 6);
  const central = Buffer.concat([Buffer.from('PK\x01\x02\x14\x03'), common, attributes, file]);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(1, 8);
  end.writeUInt16LE(1, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(local.length, 16);
  return Buffer.concat([local, central, end]);
}
