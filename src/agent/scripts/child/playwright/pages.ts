import type { BrowserContext, Frame, Page } from './playwright-types.ts';
import { BINDING, PAGE_SCRIPT, type PageReport } from './vitals.ts';

type Vital = 'CLS' | 'FCP' | 'LCP' | 'TBT' | 'TTFB';
type Score = 'GOOD' | 'NEEDS_IMPROVEMENT' | 'POOR';

/** A visited page in the form of the result. Times in ms; CLS has no unit. */
export interface PageResult {
  url: string;
  webVitals: Partial<Record<Vital, { score: Score; value: number }>>;
  pageTimings: { onContentLoad?: number; onLoad?: number };
  responseSizes: Record<string, number>;
}

/** Up to the first good, up to the second in need of improvement. From web.dev's definitions of the metrics. */
const BOUNDS: Readonly<Record<Vital, readonly [number, number]>> = {
  CLS: [0.1, 0.25],
  FCP: [1_800, 3_000],
  LCP: [2_500, 4_000],
  TBT: [200, 600],
  TTFB: [800, 1_800],
};
const MAX_PAGES = 100;
const MAX_URL_CHARS = 2_048;

export type PageErrors = Record<'consoleErrors' | 'networkErrors' | 'documentErrors', number>;

/** What the pages of a run were like, and what went wrong in them. */
export class Pages {
  readonly contexts: BrowserContext[] = [];
  readonly errors: PageErrors = { consoleErrors: 0, networkErrors: 0, documentErrors: 0 };
  readonly #reports = new Map<string, PageResult>();
  /** Of the documents that were loaded. */
  readonly #origins = new Set<string>();
  readonly #onChange: () => void;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  /** In the order of their visits. */
  get results(): PageResult[] {
    return [...this.#reports.values()];
  }

  get open(): Page[] {
    return this.contexts.flatMap((context) => context.pages()).filter((page) => !page.isClosed());
  }

  async watch(context: BrowserContext): Promise<void> {
    this.contexts.push(context);
    context.on('console', (message) => {
      if (message.type() === 'error') this.#count('consoleErrors');
    });
    context.on('weberror', () => this.#count('documentErrors'));
    context.on('response', (response) => {
      if (response.request().isNavigationRequest()) this.#origins.add(originOf(response.url()));
      if (response.status() >= 400) this.#count('networkErrors');
    });
    context.on('requestfailed', (request) => {
      // A page that is left gives up its requests: no error of the network.
      if (request.failure()?.errorText !== 'net::ERR_ABORTED') this.#count('networkErrors');
    });
    await context.exposeBinding(BINDING, ({ frame }, value) => this.#take(frame, value));
    await context.addInitScript({ content: PAGE_SCRIPT });
  }

  #count(kind: keyof PageErrors): void {
    this.errors[kind]++;
    this.#onChange();
  }

  /** The page itself could say it, so nothing is believed. */
  #take(frame: Frame, value: unknown): void {
    const report = readReport(value);
    if (report === undefined || frame.parentFrame() !== null) return;
    if (!this.#origins.has(originOf(report.url))) return;
    const key = `${report.timeOrigin} ${report.url}`;
    if (!this.#reports.has(key) && this.#reports.size >= MAX_PAGES) return;
    const { url, vitals, onContentLoad, onLoad, sizes } = report;
    this.#reports.set(key, {
      url: url.slice(0, MAX_URL_CHARS),
      webVitals: scored(vitals),
      pageTimings: {
        ...(onContentLoad === undefined ? {} : { onContentLoad: rounded(onContentLoad) }),
        ...(onLoad === undefined ? {} : { onLoad: rounded(onLoad) }),
      },
      responseSizes: sizes,
    });
    this.#onChange();
  }
}

function scored(vitals: PageReport['vitals']): PageResult['webVitals'] {
  const entries = Object.entries(BOUNDS).flatMap(([name, [good, fair]]) => {
    const value = vitals[name as Vital];
    if (value === undefined) return [];
    const score: Score = value <= good ? 'GOOD' : value <= fair ? 'NEEDS_IMPROVEMENT' : 'POOR';
    return [[name, { score, value: name === 'CLS' ? Math.round(value * 1e4) / 1e4 : rounded(value) }]];
  });
  return Object.fromEntries(entries) as PageResult['webVitals'];
}

const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : '');

const rounded = (ms: number): number => Math.round(ms * 10) / 10;

function readReport(value: unknown): PageReport | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { url, timeOrigin, vitals, onContentLoad, onLoad, sizes } = value as Record<string, unknown>;
  if (typeof url !== 'string' || !isAmount(timeOrigin)) return undefined;
  return {
    url,
    timeOrigin,
    vitals: amountsOf(vitals),
    sizes: amountsOf(sizes),
    ...(isAmount(onContentLoad) ? { onContentLoad } : {}),
    ...(isAmount(onLoad) ? { onLoad } : {}),
  };
}

const isAmount = (value: unknown): value is number => typeof value === 'number' && value >= 0 && value < 1e13;

function amountsOf(value: unknown): Record<string, number> {
  const entries = Object.entries(Object(value) as object).filter((entry): entry is [string, number] =>
    isAmount(entry[1]),
  );
  return Object.fromEntries(entries.slice(0, 30));
}
