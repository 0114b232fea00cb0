import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { BucketSettings } from '../../../src/service/blobs/index.ts';
import { findProgram, runProgram, startProgram, type RunningProgram } from '../programs.ts';
import { accepts, freePort } from './ports.ts';

/** The Versity S3 Gateway: an S3 server that checks signatures and payloads, over a folder. */
const VERSION = 'v1.0.14';
const MODULE = 'github.com/versity/versitygw';
/** Built once per machine and version: it takes minutes. */
const BUILT = join(homedir(), '.cache/vedette-tests', `versitygw-${VERSION}`);
export const BUILD_MS = 900_000;

/** Why there is no S3 server here; undefined when there is one, or Go to build it. */
export const lacksObjectStore =
  findProgram('versitygw') === undefined && !existsSync(BUILT) && findProgram('go') === undefined
    ? `versitygw not installed: go install ${MODULE}/cmd/versitygw@${VERSION}`
    : undefined;

async function programOf(): Promise<string> {
  const installed = findProgram('versitygw') ?? (existsSync(BUILT) ? BUILT : undefined);
  if (installed !== undefined) return installed;
  const folder = `${BUILT}.${process.pid}`;
  mkdirSync(folder, { recursive: true });
  try {
    const { code, stderr } = await runProgram('go', ['install', `${MODULE}/cmd/versitygw@${VERSION}`], {
      env: { ...process.env, GOBIN: folder, CGO_ENABLED: '0' },
      timeoutMs: BUILD_MS,
    });
    if (code !== 0) throw new Error(`versitygw could not be built: ${stderr.slice(-2000)}`);
    renameSync(join(folder, 'versitygw'), BUILT);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return BUILT;
}

export interface ObjectStore extends AsyncDisposable {
  readonly settings: Required<Pick<BucketSettings, 's3Endpoint' | 's3AccessKeyId' | 's3SecretAccessKey'>>;
  /** Makes a bucket, as its administrator would. @returns the folder where its objects are files */
  makeBucket(name: string): string;
  readonly process: RunningProgram;
}

/** Starts a server with one key, which may do everything. */
export async function startObjectStore(): Promise<ObjectStore> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-s3-'));
  const [s3AccessKeyId, s3SecretAccessKey] = ['key-of-the-tests', 'secret/of+the=tests'];
  const port = await freePort();
  const address = ['--port', `127.0.0.1:${port}`, '--quiet'];
  const key = ['--access', s3AccessKeyId, '--secret', s3SecretAccessKey];
  const started = await startProgram(await programOf(), [...address, ...key, 'posix', folder], () =>
    accepts(port),
  );
  return {
    settings: { s3Endpoint: `http://127.0.0.1:${port}`, s3AccessKeyId, s3SecretAccessKey },
    process: started,
    makeBucket: (name) => {
      mkdirSync(join(folder, name));
      return join(folder, name);
    },
    [Symbol.asyncDispose]: async () => {
      await started.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
