import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { create } from 'tar';
import type { SuiteJob, SuiteResult } from '../../src/checks/index.ts';
import type { Job, RunResult } from '../../src/contract/index.ts';
import { standInJob } from './agent.ts';
import type { FakeService } from './fake-service.ts';
import { temporaryFolder } from './temporary-folder.ts';

const PROJECTS = join(import.meta.dirname, '../suites/projects');

export const projectFolder = (name: string): string => join(PROJECTS, name);

export type SuiteSpec = Partial<SuiteJob> & {
  environmentVariables?: { key: string; value: string; secret?: boolean }[];
};

/** A copy of a project with other files, or more. */
export function projectWith(name: string, files: Record<string, string>): { path: string } & Disposable {
  const folder = temporaryFolder();
  cpSync(projectFolder(name), folder.path, { recursive: true });
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder.path, file)), { recursive: true });
    writeFileSync(join(folder.path, file), text);
  }
  return folder;
}

/** The archive of a folder, as an upload would bring it. */
export async function archiveOf(folder: string): Promise<Buffer> {
  const names = readdirSync(folder).filter((name) => name !== 'node_modules' && name !== 'test-results');
  const chunks: Buffer[] = [];
  const pack = create({ cwd: folder, gzip: true, portable: true, noMtime: true }, names);
  for await (const chunk of pack) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/** Lets the service have an archive. @returns the fields of a job that name it */
export function offerBundle(
  service: FakeService,
  archive: Buffer,
): Pick<SuiteJob, 'bundle' | 'codeBundlePath'> {
  const sha256 = createHash('sha256').update(archive).digest('hex');
  service.bundles.set(sha256, archive);
  return { bundle: { sha256, size: archive.length }, codeBundlePath: `bundles/${sha256}.tar.gz` };
}

/** A job that runs the project in `folder`. */
export async function suiteJob(
  service: FakeService,
  folder: string,
  spec: SuiteSpec = {},
  more: Partial<Job> = {},
): Promise<Job> {
  const bundle = offerBundle(service, await archiveOf(folder));
  return standInJob(
    { ...bundle, frequency: 10, ...spec },
    { checkType: 'PLAYWRIGHT', name: 'a suite', timeoutMs: 400_000, runSource: 'SCHEDULER', ...more },
  );
}

export const suiteResult = (result: RunResult): SuiteResult =>
  result.detail['playwrightCheckResult'] as SuiteResult;
