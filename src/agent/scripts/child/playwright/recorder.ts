import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { TRACES } from './configuration.ts';
import type { BrowserContext } from './playwright-types.ts';
import type { Pages } from './pages.ts';

const SCREENSHOTS = 'results/at-the-end';
const SCREENSHOT_MS = 2_000;
const MAX_SCREENSHOTS = 5;

/** Traces and last pictures of a plain script: what Playwright Test does by itself for its tests. */
export class Recorder {
  readonly #folder: string;
  readonly #keep: boolean;
  /** Whose trace goes on. */
  readonly #tracing = new Set<BrowserContext>();
  #count = 0;

  constructor(folder: string, keep: boolean) {
    this.#folder = folder;
    this.#keep = keep;
    mkdirSync(join(folder, TRACES), { recursive: true });
  }

  async begin(context: BrowserContext): Promise<void> {
    try {
      await context.tracing.start({ screenshots: true, snapshots: true, sources: false });
      this.#tracing.add(context);
    } catch {
      // The script's own trace goes on there.
    }
  }

  /** A context that is closed takes its trace with it. */
  async end(context: BrowserContext): Promise<void> {
    if (!this.#tracing.delete(context)) return;
    const path = join(this.#folder, TRACES, `trace-${++this.#count}.zip`);
    await context.tracing.stop({ path }).catch(() => {});
  }

  /** At the end of the script, its browsers open or not. */
  async finish(isFailed: boolean, pages: Pages): Promise<void> {
    if (isFailed) {
      const shots = pages.open.slice(-MAX_SCREENSHOTS).map((page, index) => {
        const path = join(this.#folder, SCREENSHOTS, `page-${index + 1}.png`);
        return page.screenshot({ path, timeout: SCREENSHOT_MS }).catch(() => {});
      });
      await Promise.all(shots);
    }
    if (!isFailed) this.discard();
    await Promise.all([...this.#tracing].map((context) => this.end(context)));
  }

  /** Of a script that passed nothing is kept, unless somebody watches it. */
  discard(): void {
    if (this.#keep) return;
    this.#tracing.clear();
    rmSync(join(this.#folder, TRACES), { recursive: true, force: true });
  }
}
