import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { openStore } from '../../src/service/store/index.ts';
import { silentLog } from '../support/databases.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Data folder of an empty, migrated store: to be copied, never opened. */
    storeTemplate: string;
  }
}

/** The first start of a store takes seconds; the tests copy the outcome of one. */
export async function setup(project: TestProject): Promise<() => void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'vedette-template-'));
  const store = await openStore({ dataDir, log: silentLog });
  await store.close();
  project.provide('storeTemplate', dataDir);
  return () => rmSync(dataDir, { recursive: true, force: true });
}
