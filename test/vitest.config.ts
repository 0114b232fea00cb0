import { availableParallelism } from 'node:os';
import { configDefaults, defineConfig } from 'vitest/config';

/** Files that take a minute and more, which `npm test` leaves out. */
const LONG = 'test/**/*.long.test.ts';
const COMPARISON = 'test/e2e/comparison-*.test.ts';

const project = (name: string, include: string[], more: object = {}) => ({
  extends: true as const,
  test: { name, include, exclude: [...configDefaults.exclude, LONG], ...more },
});

/** unit and arch need no service; the others say in test/support what they need and skip with a printed reason. */
export default defineConfig({
  root: new URL('..', import.meta.url).pathname,
  test: {
    // Many tests wait for something, so that two files at once pay even on two processors. With a third one
    // agents begin to say that the machine is too busy to judge.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      // Far above what they need, since `npm run check` has the compiler and the linter run beside them.
      project('unit', ['src/**/*.test.ts'], { testTimeout: 20_000 }),
      project('arch', ['test/arch/**/*.test.ts']),
      project('contract', ['test/contract/**/*.test.ts']),
      project('wire', ['test/wire/**/*.test.ts'], { testTimeout: 60_000, hookTimeout: 60_000 }),
      project('rest', ['test/rest/**/*.test.ts'], {
        globalSetup: ['test/rest/template.ts'],
        testTimeout: 60_000,
        hookTimeout: 60_000,
      }),
      project('agent', ['test/agent/**/*.test.ts'], { testTimeout: 60_000, hookTimeout: 60_000 }),
      project('sandbox', ['test/sandbox/**/*.test.ts'], { testTimeout: 60_000, hookTimeout: 60_000 }),
      // Its bombs take the machine from whoever runs beside them.
      project('hostile', ['test/hostile/**/*.test.ts'], {
        fileParallelism: false,
        testTimeout: 120_000,
        hookTimeout: 120_000,
      }),
      project('scripts', ['test/scripts/**/*.test.ts'], {
        testTimeout: 60_000,
        hookTimeout: 120_000,
      }),
      project('suites', ['test/suites/*.test.ts'], {
        fileParallelism: false,
        testTimeout: 300_000,
        hookTimeout: 300_000,
      }),
      project('cli', ['test/cli/**/*.test.ts'], {
        testTimeout: 60_000,
        hookTimeout: 60_000,
        globalSetup: ['test/rest/template.ts'],
      }),
      project('helm', ['test/helm/**/*.test.ts'], {
        globalSetup: ['test/helm/tools.ts'],
        testTimeout: 60_000,
      }),
      project('conformance', ['test/conformance/**/*.test.ts'], { testTimeout: 60_000, hookTimeout: 60_000 }),
      project('image', ['test/image/**/*.test.ts'], {
        globalSetup: ['test/image/build-all.ts'],
        fileParallelism: false,
        testTimeout: 180_000,
        hookTimeout: 120_000,
      }),
      project('e2e', ['test/e2e/**/*.test.ts'], {
        exclude: [...configDefaults.exclude, LONG, COMPARISON],
        testTimeout: 120_000,
        hookTimeout: 120_000,
      }),
      // A busy agent says that it is too busy to judge; the reference beside it never does.
      project('comparison', [COMPARISON], {
        fileParallelism: false,
        testTimeout: 120_000,
        hookTimeout: 120_000,
      }),
      project('long', [LONG], {
        exclude: configDefaults.exclude,
        globalSetup: ['test/rest/template.ts'],
        testTimeout: 120_000,
        hookTimeout: 120_000,
      }),
    ],
  },
});
