import { execFileSync, fork, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { median } from './measure.ts';
import type { Row } from './report.ts';
import type { UploadFigures } from './upload-worker.ts';

const LARGE_MB = 150;
const SMALL_MB = 15;
const ROUNDS = 5;
/** Goal 19: what an upload may add to an idle agent, MB. */
const ROOM_MB = 30;

/** The upload of a large file, hashed and in parts, against curl, which does neither, to the same sink. */
export async function benchArtifacts(): Promise<Row[]> {
  if (spawnSync('curl', ['--version']).error) {
    console.log('artifacts skipped: not installed: curl');
    return [];
  }
  const folder = mkdtempSync(join(tmpdir(), 'vedette-bench-'));
  const sink = fork(new URL('sink.ts', import.meta.url));
  try {
    const port = await portOf(sink);
    const [large, small] = [randomFile(folder, LARGE_MB), randomFile(folder, SMALL_MB)];
    const [ours, theirs, ofSmall]: [UploadFigures[], number[], UploadFigures[]] = [[], [], []];
    for (let i = 0; i < ROUNDS; i++) {
      ours.push(upload(port, large));
      theirs.push(curl(port, large.path));
      ofSmall.push(upload(port, small));
    }
    const [rate, curlRate] = [median(ours.map((each) => (LARGE_MB * 1000) / each.ms)), median(theirs)];
    return [
      {
        name: `upload of ${LARGE_MB} MB with SHA-256`,
        ours: `${rate.toFixed(0)} MB/s`,
        peer: `${curlRate.toFixed(0)} MB/s (curl -T, no hash)`,
        ratio: rate / curlRate,
        goal: { atLeast: 0.25 },
      },
      memoryRow(LARGE_MB, ours),
      memoryRow(SMALL_MB, ofSmall),
    ];
  } finally {
    sink.kill();
    rmSync(folder, { recursive: true, force: true });
  }
}

function memoryRow(mb: number, figures: readonly UploadFigures[]): Row {
  const addedMb = median(figures.map((each) => each.addedMb));
  return {
    name: `upload: memory over the idle client, ${mb} MB`,
    ours: `+${addedMb.toFixed(0)} MB`,
    peer: `${ROOM_MB} MB (allowed)`,
    ratio: addedMb / ROOM_MB,
    goal: { atMost: 1 },
  };
}

async function portOf(sink: ChildProcess): Promise<number> {
  const [port] = (await once(sink, 'message')) as [number];
  return port;
}

interface RandomFile {
  path: string;
  sha256: string;
}

function randomFile(folder: string, mb: number): RandomFile {
  const path = join(folder, `${mb}.bin`);
  const hash = createHash('sha256');
  const file = openSync(path, 'w');
  for (let i = 0; i < mb; i++) {
    const block = randomBytes(1_000_000);
    hash.update(block);
    writeSync(file, block);
  }
  closeSync(file);
  return { path, sha256: hash.digest('hex') };
}

function upload(port: number, { path, sha256 }: RandomFile): UploadFigures {
  const worker = new URL('upload-worker.ts', import.meta.url).pathname;
  const text = execFileSync(process.execPath, [worker, String(port), path, sha256], { encoding: 'utf8' });
  return JSON.parse(text) as UploadFigures;
}

/** MB/s as curl itself measures it, without its start. */
function curl(port: number, file: string): number {
  const url = `http://127.0.0.1:${port}/raw`;
  const format = '%{speed_upload}';
  const text = execFileSync('curl', ['-s', '-o', '/dev/null', '-T', file, '-w', format, url], {
    encoding: 'utf8',
  });
  return Number(text) / 1e6;
}
