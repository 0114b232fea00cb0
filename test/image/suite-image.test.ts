import { afterAll, beforeAll, describe, expect, inject, onTestFailed, test } from 'vitest';
import type { SuiteResult } from '../../src/checks/index.ts';
import { describeUnless } from '../support/programs.ts';
import { finished, lastSuiteResult, trigger, uploadBundle } from '../support/rest.ts';
import { archiveOf, projectFolder, projectWith, type SuiteSpec } from '../support/suites.ts';
import { authorityFile, buildDev, networkOfMachine } from './build.ts';
import { startContainer, type Container } from './container.ts';
import { Scene } from './scene.ts';

const MINUTES = 60_000;
/** Where a container finds the authorities of this machine. */
const AUTHORITIES = '/etc/authorities.pem';
/** What none of the machine's programs would answer, so that Chromium of the image serves. */
const NO_MIRROR = 'http://127.0.0.1:1';

const missing = inject('noImages') ?? undefined;

/** A service, and one agent in a container without any right that runs suites for it. */
class Stage {
  readonly #scene: Scene;
  readonly #container: Container;

  private constructor(scene: Scene, container: Container) {
    this.#scene = scene;
    this.#container = container;
  }

  static async open(image: string): Promise<Stage> {
    const scene = await Scene.start();
    const authorities = authorityFile();
    const trust: Record<string, string> =
      authorities === undefined ? {} : { NODE_EXTRA_CA_CERTS: AUTHORITIES };
    const env = {
      ...networkOfMachine(),
      ...trust,
      API_KEY: scene.location!.key,
      AGENT_SERVICE_URL: scene.url,
      PLAYWRIGHT_DOWNLOAD_HOST: NO_MIRROR,
    };
    const files: Record<string, string> = authorities === undefined ? {} : { [AUTHORITIES]: authorities };
    return new Stage(scene, await startContainer({ image, port: 8081, env, files }));
  }

  /** Runs the project in a folder once. */
  async run(folder: string, spec: SuiteSpec = {}): Promise<{ status: string; result: SuiteResult }> {
    this.#scene.tellOnFailure();
    onTestFailed(() => console.log(this.#container.logs().slice(-3000)));
    const { rest } = this.#scene;
    const { id } = await rest.call<{ id: string }>('POST', '/v1/checks/playwright', {
      name: 'a suite',
      codeBundlePath: await uploadBundle(rest, await archiveOf(folder)),
      frequency: 60,
      activated: false,
      privateLocations: ['here'],
      ...spec,
    });
    const [session] = await trigger(rest, id);
    const { status } = await finished(rest, session!, 4 * MINUTES);
    return { status, result: await lastSuiteResult(rest, id) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#container[Symbol.asyncDispose]();
    await this.#scene[Symbol.asyncDispose]();
  }
}

describeUnless(missing, 'suites in a container without any right', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await Stage.open(inject('images')!.agent.image);
  });
  afterAll(() => stage?.[Symbol.asyncDispose]());

  test.each<[string, SuiteSpec]>([
    ['npm', {}],
    ['pnpm', { pwProjects: ['fast'] }],
    ['yarn', { testCommand: 'npx playwright test parallel' }],
    ['bun', {}],
  ])(
    'one of %s passes, and a second time without an installation',
    async (manager, spec) => {
      const first = await stage.run(projectFolder(manager), spec);
      expect(first.result).toMatchObject({ error: null, install: { fromCache: false } });
      expect(first.status).toBe('PASSED');
      expect(first.result.packageManager?.name).toBe(manager);
      expect(first.result.metrics.total).toBeGreaterThan(0);
      const { status, result } = await stage.run(projectFolder(manager), spec);
      expect(status).toBe('PASSED');
      expect(result.install?.fromCache).toBe(true);
    },
    6 * MINUTES,
  );
});

/** A package that npm builds where it installs it, since it has a binding.gyp. */
const NATIVE = {
  'native/package.json': JSON.stringify({ name: 'native', version: '1.0.0', main: 'index.js' }),
  'native/index.js': "module.exports = require('./build/Release/answer.node');",
  'native/binding.gyp': JSON.stringify({ targets: [{ target_name: 'answer', sources: ['answer.c'] }] }),
  'native/answer.c': `#include <node_api.h>
static napi_value answer(napi_env env, napi_callback_info info) {
  napi_value number;
  napi_create_int32(env, 42, &number);
  return number;
}
NAPI_MODULE_INIT() {
  napi_value function;
  napi_create_function(env, "answer", NAPI_AUTO_LENGTH, answer, NULL, &function);
  return function;
}
`,
  'tests/native.spec.ts': `import { expect, test } from '@playwright/test';
import answer from 'native';
test('calls what was compiled', () => expect(answer()).toBe(42));
`,
};

describeUnless(missing, 'the image with compilers', () => {
  describe('in a container without any right', () => {
    let stage: Stage;
    beforeAll(async () => {
      stage = await Stage.open(await buildDev(inject('images')!.agent.image));
    }, 10 * MINUTES);
    afterAll(() => stage?.[Symbol.asyncDispose]());

    test(
      'builds a package of a suite, which its tests load',
      async () => {
        using project = projectWith('npm', NATIVE);
        const own = 'npm install --install-links --no-audit --no-fund --no-package-lock ./native';
        const { status, result } = await stage.run(project.path, { installCommand: own });
        expect(result.error).toBeNull();
        expect(result.tests.map(({ titlePath }) => titlePath.at(-1))).toContain('calls what was compiled');
        expect(status).toBe('PASSED');
      },
      6 * MINUTES,
    );
  });
});
