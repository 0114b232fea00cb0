import { expect, test } from 'vitest';
import { describeUnless } from '../support/programs.ts';
import { template, utf8, valueAt } from './chart.ts';
import { toolsMissing } from './tools.ts';

const service = (more: object): object => ({ service: { enabled: true, ...more } });
const POSTGRES = { url: 'postgres://u:p@db/v' };

/** Values, and what the refusal must say: which value, and what is allowed or to be set instead. */
const REFUSED: readonly (readonly [values: object, says: string])[] = [
  [valueAt('agent.servceUrl', 'https://x'), "additional properties 'servceUrl' not allowed"],
  [valueAt('agent.serviceUrl', ''), 'agent.serviceUrl is empty: set it to the address of the service'],
  [valueAt('agent.serviceUrl', 'monitoring.example'), 'agent.serviceUrl: an address such as https://'],
  [valueAt('agent.location', 'my office'), 'agent.location: the slug of a private location is allowed'],
  [valueAt('agent.logLevel', 'loud'), "value must be one of 'debug'"],
  [valueAt('agent.jobConcurrency', 0), "'/agent/jobConcurrency': minimum: got 0, want 1"],
  [valueAt('agent.drainTimeoutSeconds', '10m'), "'/agent/drainTimeoutSeconds': got string, want"],
  [
    valueAt('apiKeySecret.apiKey', ''),
    'apiKeySecret.apiKey is empty: set it to the key of the private location',
  ],
  [
    valueAt('apiKeySecret.apiKey', 'cu_0123456789abcdef'),
    'apiKeySecret.apiKey: the key of a private location',
  ],
  [valueAt('apiKeySecret.create', false), 'apiKeySecret.name is empty'],
  [valueAt('replicaCount', 'two'), "'/replicaCount': got string, want integer"],
  [valueAt('image.tag', 1.1), "'/image/tag': got number, want string"],
  [valueAt('image.digest', 'sha256:abc'), 'image.digest: sha256: and 64 hexadecimal digits are allowed'],
  [valueAt('persistence.size', '8GB'), 'persistence.size: a size such as 8Gi is allowed'],
  [valueAt('env.AGENT_DRAIN_TIMEOUT', 60), 'set agent.drainTimeoutSeconds'],
  [valueAt('extraEnv', [{ name: 'AGENT_HEALTH_PORT', value: '1' }]), 'set metrics.port'],
  [valueAt('env.LIST', ['a']), "'/env/LIST'"],
  [valueAt('extraEnv', [{ nam: 'A' }]), "missing property 'name'"],
  [valueAt('extraCaCerts', '/etc/ssl/ca.pem'), 'extraCaCerts: PEM text is allowed'],
  [
    { extraCaCertsFrom: { configMap: 'a', secret: 'b' } },
    'extraCaCertsFrom.configMap and extraCaCertsFrom.secret are both set',
  ],
  [
    { terminationGracePeriodSeconds: 300, agent: { drainTimeoutSeconds: 300 } },
    'terminationGracePeriodSeconds is 300, too short for agent.drainTimeoutSeconds and the 45 s after it: set at least 345',
  ],
  [
    { chromiumSandbox: { enabled: true, localhostProfile: '/var/lib/kubelet/seccomp/x.json' } },
    "chromiumSandbox.localhostProfile: a path below the kubelet's seccomp folder is allowed",
  ],
  [
    { metrics: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } } },
    'every agent would be scraped twice',
  ],
  [{ keda: { enabled: true } }, 'agent.location is empty: to scale by its queue'],
  [
    { agent: { location: 'x' }, keda: { enabled: true }, autoscaling: { enabled: true } },
    'autoscaling and keda are both enabled',
  ],
  [{ autoscaling: { enabled: true, minReplicas: 20 } }, 'autoscaling.minReplicas is more than'],
  [
    { autoscaling: { enabled: true, targetCPUUtilizationPercentage: null } },
    'autoscaling has nothing to go by',
  ],
  [
    service({ replicaCount: 2 }),
    'service.replicaCount is more than 1, but the embedded database has one user',
  ],
  [service({ replicaCount: 2, database: POSTGRES }), 'each copy would keep its own artifacts'],
  [
    service({ database: { ...POSTGRES, existingSecret: 'x' } }),
    'service.database.url and the existingSecret',
  ],
  [service({ ingress: { enabled: true } }), 'service.ingress.host is empty'],
  [service({ bootstrap: { apiKey: 'short' } }), 'service.bootstrap.apiKey: 16 to 200 printable characters'],
  [service({ type: 'clusterip' }), "value must be one of 'ClusterIP'"],
];

describeUnless(toolsMissing(), 'values that cannot work are refused before anything is installed', () => {
  test.concurrent.each(REFUSED)('%j', async (values, says) => {
    const { code, stdout, stderr } = await template(values as Record<string, unknown>);
    expect([code, stdout]).toEqual([1, '']);
    expect(utf8(stderr)).toContain(says);
  });

  test('several at once, in one message', async () => {
    const { stderr } = await template({ agent: { serviceUrl: '' }, apiKeySecret: { apiKey: '' } });
    expect(utf8(stderr).match(/^- .*/gm)).toHaveLength(2);
  });

  test('a refusal does not show what may be secret', async () => {
    const { stderr } = await template({
      service: { enabled: true, database: { url: 'mysql://u:hunter2@h' } },
    });
    expect(stderr).toContain('service.database.url');
    expect(stderr).not.toContain('hunter2');
  });

  test('the key may come by the environment instead', async () => {
    const { code } = await template({
      apiKeySecret: { apiKey: '' },
      env: { API_KEY_FILE: '/run/secrets/key' },
    });
    expect(code).toBe(0);
  });
});
