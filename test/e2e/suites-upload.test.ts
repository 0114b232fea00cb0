import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { MAX_BUNDLE_BYTES } from '../../src/contract/index.ts';
import { engines } from '../support/databases.ts';
import { startServiceProcess, type ServiceProcess } from '../support/processes.ts';
import { API_KEY } from '../support/rest.ts';

const MB = 1_000_000;
const CHUNK = randomBytes(MB);

describe('the largest archive', () => {
  const [engine] = engines();
  let service: ServiceProcess;
  beforeAll(async () => {
    await engine!.start();
    service = await startServiceProcess(await engine!.fresh(), {});
  });
  afterAll(async () => {
    await service.kill();
    await engine!.stop();
  });

  /** Sends so many bytes that begin as gzip does, no faster than they are taken, and never says how many. */
  const send = (bytes: number): Promise<{ status: number; text: string }> =>
    new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${API_KEY}`, 'content-type': 'application/octet-stream' };
      const call = request(`${service.url}/next/storage/upload-code-bundle`, { method: 'POST', headers });
      call.on('response', (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
        answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text }));
      });
      call.on('error', reject);
      let left = bytes;
      const next = (): void => {
        while (left > 0 && !call.destroyed) {
          const chunk = Buffer.from(CHUNK.subarray(0, Math.min(MB, left)));
          if (left === bytes) Buffer.from('1f8b', 'hex').copy(chunk);
          left -= chunk.length;
          if (!call.write(chunk)) return void call.once('drain', next);
        }
        call.end();
      };
      next();
    });

  /** Of the service's process, so far. */
  const peakMb = (): number => {
    const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1000;
  };

  test('passes through the service, whose memory does not grow with it; a byte more is refused', async () => {
    // What any upload needs is there after the first ones.
    for (let n = 0; n < 2; n++) expect(await send(20 * MB)).toMatchObject({ status: 201 });
    const before = peakMb();
    const largest = await send(MAX_BUNDLE_BYTES);
    expect(largest).toMatchObject({ status: 201 });
    expect(await send(MAX_BUNDLE_BYTES + 1)).toMatchObject({
      status: 413,
      text: expect.stringContaining('has more than the 150000000 bytes that are allowed') as string,
    });
    expect(peakMb() - before).toBeLessThan(80);
  });
});
