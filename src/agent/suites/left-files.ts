import { constants } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { SuiteResult } from '../../checks/index.ts';
import { collect, openAtRest, packFolder, Refusal } from '../artifacts/index.ts';
import type { Finished } from '../ports.ts';
import type { Scrubber } from '../scrub/index.ts';
import { HTML_REPORT, REPORT } from './result.ts';
import type { TestFile } from './tests.ts';

const DEGRADED = 'degraded.json';
const MAX_DEGRADED_BYTES = 100_000;
const Degraded = z.object({ messages: z.array(z.string()).max(1000) });

/** What the helper package wrote where the tests ran. Nothing of the run is alive. */
export async function degradedReasons(folder: string, below: string): Promise<string[]> {
  try {
    const file = await openAtRest(folder, join(below, DEGRADED));
    try {
      const { size } = await file.stat();
      const bytes = Buffer.alloc(Math.min(size, MAX_DEGRADED_BYTES));
      await file.read(bytes, 0, bytes.length, 0);
      return Degraded.parse(JSON.parse(bytes.toString())).messages;
    } finally {
      await file.close();
    }
  } catch {
    return [];
  }
}

interface KeepOptions {
  folder: string;
  into: string;
  left: readonly TestFile[];
  summary: Pick<SuiteResult, 'tests' | 'metrics'>;
  scrubber: Scrubber;
  shard: SuiteResult['shard'];
}

type Wanted = Parameters<typeof collect>[0]['wanted'][number];

/**
 * Keeps what the tests left: reports first, then the files of tests that failed, then the others, as long as
 * there is room. Without a report of Playwright's own, since the suite was cut, there is one of ours.
 */
export async function keepFiles(options: KeepOptions): Promise<Pick<Finished, 'files' | 'refused'>> {
  const { folder, into, left, summary, scrubber, shard } = options;
  const html = join(folder, `.${HTML_REPORT}`);
  const refusedReports: Finished['refused'][number][] = [];
  const hasHtml = await packFolder({ folder, below: 'out/html', scrubber, into: html }).catch(
    (error: unknown) => {
      if (!(error instanceof Refusal)) throw error;
      refusedReports.push(refusalOf(HTML_REPORT, error));
      return false;
    },
  );
  const wanted: Wanted[] = [
    await reportFile(folder, summary),
    ...(hasHtml ? [{ path: `.${HTML_REPORT}`, kind: 'report' as const, name: HTML_REPORT }] : []),
    ...(shard === null ? [] : blobOf(shard.index)),
    ...left.filter(({ isOfFailure }) => isOfFailure),
    ...left.filter(({ isOfFailure }) => !isOfFailure),
  ];
  const present = shard === null ? wanted : await withoutMissingBlob(folder, wanted);
  const { files, refused } = await collect({ folder, wanted: present, scrubber, into });
  return { files, refused: [...refusedReports, ...refused] };
}

const refusalOf = (name: string, { message, sizeBytes }: Refusal): Finished['refused'][number] => ({
  name,
  kind: 'report',
  contentType: 'application/zip',
  size: sizeBytes,
  sha256: null,
  state: 'refused',
  reason: message,
});

const blobOf = (index: number): Wanted[] => [
  { path: `out/blob/blob-${index}.zip`, kind: 'report', name: `blob-${index}.zip` },
];

/** A shard that was cut leaves none. */
async function withoutMissingBlob(folder: string, wanted: Wanted[]): Promise<Wanted[]> {
  const found = await Promise.all(
    wanted.map(async ({ path }) => !path.startsWith('out/blob/') || (await isThere(folder, path))),
  );
  return wanted.filter((_each, index) => found[index]);
}

async function isThere(folder: string, path: string): Promise<boolean> {
  try {
    await (await openAtRest(folder, path)).close();
    return true;
  } catch {
    return false;
  }
}

const OWN_REPORT = '.report.json';

async function reportFile(folder: string, summary: KeepOptions['summary']): Promise<Wanted> {
  if (await isThere(folder, `out/${REPORT}`)) return { path: `out/${REPORT}`, kind: 'report', name: REPORT };
  const path = join(folder, OWN_REPORT);
  const making = `${path}.${process.pid}.new`;
  await rm(making, { force: true, recursive: true });
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const file = await open(making, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  await file.writeFile(JSON.stringify({ isPartial: true, ...summary }));
  await file.close();
  await rm(path, { force: true, recursive: true });
  await rename(making, path);
  return { path: OWN_REPORT, kind: 'report', name: REPORT };
}
