/** Whoever uses the test runner names it somewhere. */
const TEST_PACKAGE = /@playwright\/test|playwright\/test/;
const CALLS_TEST = /(?<![.\w$])test\s*[.(]/;
/** From a package, or from fixtures of his own. */
const TAKES_TEST = /\b(import|const|let|var)\s*\{[^}]*\btest\b[^}]*\}/;

/**
 * Whether files are to be run by Playwright Test. A script that takes `expect` or `chromium` from its package
 * is no spec for that.
 */
export const areSpecs = (sources: readonly string[]): boolean =>
  sources.some((source) => TEST_PACKAGE.test(source)) &&
  sources.some((source) => CALLS_TEST.test(source) || TAKES_TEST.test(source));

/** Whether the author of a file without tests wanted to write some. */
export const takesTest = (source: string): boolean => TAKES_TEST.test(source);
