import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { agentSettings, readAgentSettings } from '../../src/agent/settings.ts';
import { SERVICE_PREFIXES, serviceSettings } from '../../src/service/settings.ts';
import { readSettings, type Environment } from '../../src/kit/settings.ts';
import { CHART } from '../support/chart-values.ts';
import { describeUnless, runProgram } from '../support/programs.ts';
import { at, expectGood, render, template, textAt, utf8, type Json } from './chart.ts';
import { helm, toolsMissing } from './tools.ts';

const root = join(import.meta.dirname, '../..');
const read = (file: string): string => readFileSync(join(root, file), 'utf8');

describe('what the chart has from elsewhere', () => {
  test('its appVersion is the version of the package', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    expect(read('helm/vedette/Chart.yaml')).toContain(`appVersion: '${version}'`);
  });

  test('its images are those that the Dockerfile says how to build', () => {
    for (const image of ['vedette-agent', 'vedette-agent-uptime', 'vedette-service']) {
      expect(read('Dockerfile')).toMatch(new RegExp(`-t ${image} `));
    }
  });
});

describeUnless(toolsMissing(), 'the chart as it comes', () => {
  test('helm lint has nothing to say, with values and without', async () => {
    for (const set of [[], ['--set', 'agent.serviceUrl=https://m.example,apiKeySecret.apiKey=pl_12345678']]) {
      const { code, stdout } = await runProgram(helm.path, ['lint', '--strict', CHART, ...set]);
      expect([code, stdout.match(/\[(WARNING|ERROR)\].*/g)]).toEqual([0, null]);
    }
  });

  test('agents need an address and a key, and pass the restricted level', async () => {
    const rendered = await render();
    expectGood(rendered);
    expect(rendered.kinds).toEqual(['Deployment', 'PodDisruptionBudget', 'Secret', 'ServiceAccount']);
    expect(rendered.container('image')).toBe('vedette-agent:0.1.0');
    expect(rendered.container('securityContext')).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(rendered.container('volumeMounts')).toEqual([{ name: 'data', mountPath: '/var/lib/vedette' }]);
    expect(rendered.pod('spec.enableServiceLinks')).toBe(false);
    expect(rendered.pod('spec.automountServiceAccountToken')).toBe(false);
  });

  test('probes look at the health port', async () => {
    const rendered = await render();
    const paths = ['startupProbe', 'readinessProbe', 'livenessProbe'].map((probe) =>
      rendered.container(`${probe}.httpGet`),
    );
    expect(paths).toEqual([
      { path: '/-/liveness', port: 'health' },
      { path: '/-/readiness', port: 'health' },
      { path: '/-/liveness', port: 'health' },
    ]);
    expect(rendered.container('ports')).toEqual([{ name: 'health', containerPort: 8081 }]);
  });

  test.each([
    [{}, 645, '600'],
    [{ agent: { drainTimeoutSeconds: 1800 } }, 1845, '1800'],
    [{ terminationGracePeriodSeconds: 300 }, 300, '255'],
    [{ terminationGracePeriodSeconds: 10 }, 45, 'refused'],
    [{ terminationGracePeriodSeconds: 400, agent: { drainTimeoutSeconds: 300 } }, 400, '300'],
  ])('the grace period covers the drain: %j', async (values, grace, drain) => {
    if (drain === 'refused') {
      expect(utf8((await template(values)).stderr)).toContain(`set at least ${grace}`);
      return;
    }
    const rendered = await render(values);
    expect(rendered.pod('spec.terminationGracePeriodSeconds')).toBe(grace);
    expect(rendered.env('AGENT_DRAIN_TIMEOUT')).toBe(drain);
  });

  test('a new key begins with new pods; nothing else in the pods changes with it', async () => {
    const [one, two] = await Promise.all([
      render(),
      render({ apiKeySecret: { apiKey: 'pl_another_key_of_it' } }),
    ]);
    const sum = 'metadata.annotations.checksum/api-key';
    expect(one.pod(sum)).not.toBe(two.pod(sum));
    expect(one.pod('spec')).toEqual(two.pod('spec'));
    expect(JSON.stringify(two.pod('metadata'))).not.toContain('pl_another');
  });

  test('nothing selects by what an upgrade changes', async () => {
    const rendered = await render({ service: { enabled: true }, commonLabels: { team: 'sre' } });
    for (const component of ['agent', 'service'] as const) {
      expect(at(rendered.find('Deployment', component), 'spec.selector.matchLabels')).toEqual({
        'app.kubernetes.io/name': 'vedette',
        'app.kubernetes.io/instance': 'demo',
        'app.kubernetes.io/component': component,
      });
    }
  });

  test('names stay within their limits, whatever the release is called', async () => {
    const rendered = await render({ service: { enabled: true }, fullnameOverride: 'x'.repeat(60) });
    expectGood(rendered);
    const names = rendered.objects.map((object) => textAt(object, 'metadata.name'));
    expect(Math.max(...names.map((name) => name.length))).toBeLessThan(53);
  });

  test('an entry of env or extraEnv takes the place of the chart’s own', async () => {
    const rendered = await render({
      env: { LOG_LEVEL: 'warn', SANDBOX: 'best-effort' },
      extraEnv: [
        { name: 'API_KEY_FILE', value: '/keys/one' },
        { name: 'SANDBOX', value: 'require' },
      ],
    });
    expectGood(rendered);
    expect([rendered.env('LOG_LEVEL'), rendered.env('SANDBOX')]).toEqual(['warn', 'require']);
  });
});

describeUnless(toolsMissing(), 'the environment that the chart sets', () => {
  /** With a text in place of what comes from a Secret. */
  const environment = (entries: Json | undefined, secrets: Environment): Environment =>
    Object.fromEntries(
      (entries as Json[]).map((entry) => {
        const name = textAt(entry, 'name');
        return [name, at(entry, 'value') === undefined ? secrets[name] : textAt(entry, 'value')];
      }),
    );

  test('is what the agent reads', async () => {
    const rendered = await render({
      agent: {
        jobConcurrency: 3,
        logFormat: 'pretty',
        useOsDnsResolver: true,
        blockedTargets: ['10.0.0.0/8', '*.internal.example:22'],
        allowedTargets: ['10.1.0.0/16'],
      },
      proxy: { httpsProxy: 'http://p.example:3128', httpProxy: 'http://p.example:3128', noProxy: '.svc' },
      extraCaCertsFrom: { secret: 'ca' },
    });
    const env = environment(rendered.container('env'), { API_KEY: 'pl_0123456789abcdef' });
    const { values, warnings } = readAgentSettings(env);
    expect(warnings).toEqual([]);
    expect(values).toMatchObject({
      serviceUrl: 'https://monitoring.example',
      jobConcurrency: 3,
      healthPort: 8081,
      dataDir: '/var/lib/vedette',
      drainTimeoutMs: 600_000,
      extraCaCerts: '/etc/vedette/ca/ca.crt',
      useOsResolver: true,
      blockedTargets: '10.0.0.0/8,*.internal.example:22',
      sandbox: 'best-effort',
    });
    const names = Object.values(agentSettings).map(({ name }) => name);
    expect(Object.keys(env).filter((name) => !names.includes(name))).toEqual([]);
  });

  test('is what the service reads', async () => {
    const rendered = await render({
      service: {
        enabled: true,
        blobStore: 's3://artifacts',
        minAgentVersion: '1.2.3',
        database: { existingSecret: 'pg' },
        metricsToken: { existingSecret: 'token' },
        bootstrap: { accountId: '0190d3a5-0000-7000-8000-000000000000', existingSecret: 'first' },
      },
    });
    const env = environment(rendered.container('env', 'service'), {
      DATABASE_URL: 'postgres://u:p@db/vedette',
      METRICS_TOKEN: 'a-token-of-mine',
      BOOTSTRAP_API_KEY: 'sixteen-characters',
    });
    const { values, warnings } = readSettings(serviceSettings, env, SERVICE_PREFIXES);
    expect(warnings).toEqual([]);
    expect(values).toMatchObject({ port: 3000, dataDir: '/var/lib/vedette', drainSeconds: 5 });
    const names = Object.values(serviceSettings).map(({ name }) => name);
    expect(Object.keys(env).filter((name) => !names.includes(name))).toEqual([]);
  });
});

describeUnless(toolsMissing(), 'agents and the service in one release', () => {
  const both = { agent: { serviceUrl: '' }, service: { enabled: true } };

  test('agents find the service, and reach it beside a proxy', async () => {
    const rendered = await render({ ...both, proxy: { httpsProxy: 'http://p:3128', noProxy: '.corp' } });
    expectGood(rendered);
    expect(rendered.env('AGENT_SERVICE_URL')).toBe('http://demo-vedette-service.monitoring.svc:3000');
    expect(rendered.env('NO_PROXY')).toBe('.corp,demo-vedette-service.monitoring.svc');
  });

  test('its network policies let them through to one another and to name servers', async () => {
    const rendered = await render({
      ...both,
      networkPolicy: { enabled: true },
      service: { enabled: true, networkPolicy: { enabled: true, ingressFrom: [{ podSelector: {} }] } },
    });
    expectGood(rendered);
    const labels = (component: string): object => ({
      podSelector: {
        matchLabels: {
          'app.kubernetes.io/name': 'vedette',
          'app.kubernetes.io/instance': 'demo',
          'app.kubernetes.io/component': component,
        },
      },
    });
    const agent = at(rendered.find('NetworkPolicy', 'agent'), 'spec.egress') as Json[];
    const service = at(rendered.find('NetworkPolicy', 'service'), 'spec.ingress.0.from') as Json[];
    expect(agent[1]).toEqual({ to: [labels('service')], ports: [{ port: 'http' }] });
    expect(agent).toHaveLength(2);
    expect(service).toContainEqual(labels('agent'));
  });

  test('an address in the environment counts as one in agent.serviceUrl', async () => {
    const rendered = await render({
      ...both,
      env: { AGENT_SERVICE_URL: 'https://m.example:8443' },
      proxy: { httpsProxy: 'http://p:3128' },
      networkPolicy: { enabled: true },
    });
    expectGood(rendered);
    expect([rendered.env('AGENT_SERVICE_URL'), rendered.env('NO_PROXY')]).toEqual([
      'https://m.example:8443',
      undefined,
    ]);
    const ways = at(rendered.find('NetworkPolicy'), 'spec.egress.1.ports');
    expect(ways).toEqual([{ port: 8443 }, { port: 3128 }]);
  });

  test('the embedded database has one user, PostgreSQL has many', async () => {
    const strategy = 'spec.strategy.type';
    const embedded = await render(both);
    expect(at(embedded.find('Deployment', 'service'), strategy)).toBe('Recreate');
    const database = { url: 'postgres://u:p@db/v' };
    const shared = await render({
      ...both,
      service: { enabled: true, replicaCount: 2, database, blobStore: 's3://b' },
    });
    expectGood(shared);
    expect(at(shared.find('Deployment', 'service'), strategy)).toBe('RollingUpdate');
    expect(shared.kinds).not.toContain('PersistentVolumeClaim');
    // Artifacts on a volume of one node: a second copy could wait for it for ever.
    const half = await render({ ...both, service: { enabled: true, database } });
    expect(at(half.find('Deployment', 'service'), strategy)).toBe('Recreate');
  });
});

describeUnless(toolsMissing(), 'OpenShift', () => {
  test('user and group are the cluster’s where it is one', async () => {
    const rendered = await render({ service: { enabled: true } }, [
      '--api-versions',
      'security.openshift.io/v1',
    ]);
    expectGood(rendered);
    for (const component of ['agent', 'service'] as const) {
      const context = rendered.pod('spec.securityContext', component) as object;
      expect(context).not.toHaveProperty('runAsUser');
      expect(context).not.toHaveProperty('fsGroup');
      expect(context).toHaveProperty('runAsNonRoot', true);
    }
  });
});
