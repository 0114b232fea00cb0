/** What a page says about itself, ms since its navigation began; sent again when something was added. */
export interface PageReport {
  url: string;
  /** Distinguishes documents with one address. */
  timeOrigin: number;
  vitals: { TTFB?: number; FCP?: number; LCP?: number; CLS?: number; TBT?: number };
  onContentLoad?: number;
  onLoad?: number;
  /** Bytes over the network by kind, as far as other origins let the page know. */
  sizes: Record<string, number>;
}

export const BINDING = '__vedetteReport';

/**
 * Runs in every document of a main frame before its own scripts. Measures as Chromium's own reports define
 * it: layout shifts without input in windows of 5 s with gaps of 1 s, the blocking part of tasks over 50 ms
 * after the first paint.
 */
export const PAGE_SCRIPT = `(() => {
  if (window.top !== window || !/^https?:$/.test(location.protocol)) return;
  const send = window.${BINDING};
  if (typeof send !== 'function') return;
  // The document's own; what a script makes of it later is the same page.
  const url = location.href;
  const vitals = {};
  const longTasks = [];
  let timer, cls = 0, clsStart = 0, clsLast = 0;
  const observe = (type, each) => {
    try {
      new PerformanceObserver((list) => { list.getEntries().forEach(each); later(); })
        .observe({ type, buffered: true });
    } catch {}
  };
  const report = () => {
    const [nav] = performance.getEntriesByType('navigation');
    if (nav === undefined) return;
    if (nav.responseStart > 0) vitals.TTFB = nav.responseStart;
    vitals.CLS ??= 0;
    vitals.TBT = longTasks.reduce((sum, task) =>
      task.startTime >= (vitals.FCP ?? Infinity) ? sum + task.duration - 50 : sum, 0);
    const sizes = { document: nav.transferSize };
    for (const { initiatorType, transferSize } of performance.getEntriesByType('resource').slice(0, 2000)) {
      sizes[initiatorType] = (sizes[initiatorType] ?? 0) + transferSize;
    }
    Promise.resolve(send({
      url, timeOrigin: performance.timeOrigin, vitals, sizes,
      onContentLoad: nav.domContentLoadedEventEnd || undefined,
      onLoad: nav.loadEventEnd || undefined,
    })).catch(() => {});
  };
  const later = () => { timer ??= setTimeout(() => { timer = undefined; report(); }, 50); };
  observe('paint', ({ name, startTime }) => { if (name === 'first-contentful-paint') vitals.FCP = startTime; });
  observe('largest-contentful-paint', ({ startTime }) => { vitals.LCP = startTime; });
  observe('layout-shift', ({ value, startTime, hadRecentInput }) => {
    if (hadRecentInput) return;
    const isSame = startTime - clsLast < 1000 && startTime - clsStart < 5000;
    cls = isSame ? cls + value : value;
    if (!isSame) clsStart = startTime;
    clsLast = startTime;
    vitals.CLS = Math.max(vitals.CLS ?? 0, cls);
  });
  observe('longtask', (task) => longTasks.push(task));
  addEventListener('DOMContentLoaded', later);
  addEventListener('load', () => setTimeout(later));
  addEventListener('pagehide', report);
})();`;
