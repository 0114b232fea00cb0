import { at, overlay, type Json, type Rendered, type Values } from './chart.ts';
import { container, env, inKind, pod, workload, type ValueTest } from './lookups.ts';

/** The service alone, so that each kind is there once. */
const ALONE: Values = { agent: { enabled: false }, service: { enabled: true } };
const own = (
  path: string,
  set: unknown,
  shows: (rendered: Rendered) => Json | undefined,
  as: unknown = set,
  also: Values = {},
): ValueTest => ({
  path: `service.${path}`,
  set,
  also: overlay(ALONE, { service: also }),
  shows,
  as,
});

const inEnv = (path: string, name: string, set: unknown, as: unknown = String(set)): ValueTest =>
  own(path, set, env(name, 'service'), as);
const inPod = (path: string, set: unknown, where = path, as: unknown = set, also: Values = {}): ValueTest =>
  own(path, set, pod(`spec.${where}`, 'service'), as, also);
const inContainer = (
  path: string,
  set: unknown,
  where = path,
  as: unknown = set,
  also: Values = {},
): ValueTest => own(path, set, container(where, 'service'), as, also);

const POSTGRES = 'postgres://u:p@db/vedette';
const secretRef = (name: string, key: string): object => ({ secretKeyRef: { name, key } });
const secretEntry = (key: string) => inKind('Secret', `stringData.${key}`);
const volume = { name: 'extra', emptyDir: {} };
const mount = { name: 'extra', mountPath: '/extra' };
const digest = `sha256:${'b'.repeat(64)}`;
const dropped = { action: 'drop', sourceLabels: ['__name__'], regex: 'nodejs_.*' };
const peers = [{ namespaceSelector: {} }];
const toDatabase = [{ to: [{ podSelector: { matchLabels: { app: 'pg' } } }], ports: [{ port: 5432 }] }];
const affinity = { podAntiAffinity: {} };
const ingress = { ingress: { enabled: true, host: 'm.example' } };
const claim = (path: string) => inKind('PersistentVolumeClaim', path);
const monitor = (path: string) => inKind('ServiceMonitor', path);
const monitored = { serviceMonitor: { enabled: true } };

/** Several copies, which PostgreSQL and a store of artifacts make possible. */
const SHARED = { database: { url: POSTGRES }, blobStore: 's3://artifacts' };

export const SERVICE_VALUES: readonly ValueTest[] = [
  {
    path: 'service.enabled',
    set: true,
    // The agents of the same release go to it without being told.
    also: { agent: { serviceUrl: '' } },
    shows: (r) => [r.env('AGENT_SERVICE_URL')!, r.env('PUBLIC_URL', 'service')!],
    as: [
      'http://demo-vedette-service.monitoring.svc:3000',
      'http://demo-vedette-service.monitoring.svc:3000',
    ],
  },
  inContainer('image.registry', 'r.example', 'image', 'r.example/vedette-service:0.1.0'),
  inContainer('image.repository', 'mine', 'image', 'mine:0.1.0'),
  inContainer('image.tag', '9.9.9', 'image', 'vedette-service:9.9.9'),
  inContainer('image.digest', digest, 'image', `vedette-service@${digest}`),
  inContainer('image.pullPolicy', 'Always', 'imagePullPolicy'),
  own('replicaCount', 3, workload('spec.replicas', 'service'), 3, SHARED),
  inEnv('publicUrl', 'PUBLIC_URL', 'https://m.example'),
  inEnv('logLevel', 'LOG_LEVEL', 'debug'),
  inEnv('logFormat', 'LOG_FORMAT', 'pretty'),
  own('database.url', POSTGRES, (r) => [secretEntry('DATABASE_URL')(r)!, r.env('DATABASE_URL', 'service')!], [
    POSTGRES,
    secretRef('demo-vedette-service', 'DATABASE_URL'),
  ]),
  inEnv('database.existingSecret', 'DATABASE_URL', 'pg', secretRef('pg', 'DATABASE_URL')),
  own('database.key', 'uri', env('DATABASE_URL', 'service'), secretRef('pg', 'uri'), {
    database: { existingSecret: 'pg' },
  }),
  inEnv('blobStore', 'BLOB_STORE', 's3://artifacts'),
  inEnv('retentionRawDays', 'RETENTION_RAW_DAYS', 7),
  inEnv('leaseSeconds', 'LEASE_SECONDS', 60),
  inEnv('queueExpirySeconds', 'QUEUE_EXPIRY_SECONDS', 100),
  inEnv('rateLimitPerMinute', 'RATE_LIMIT_PER_MINUTE', 1_000_000),
  inEnv('drainSeconds', 'SERVICE_DRAIN_SECONDS', 15),
  inEnv('minAgentVersion', 'MIN_AGENT_VERSION', '1.2.3'),
  own('metricsToken.value', 'secret-token', secretEntry('METRICS_TOKEN')),
  own(
    'metricsToken.existingSecret',
    'mine',
    (r) => [r.env('METRICS_TOKEN', 'service')!, monitor('spec.endpoints.0.authorization.credentials')(r)!],
    [secretRef('mine', 'METRICS_TOKEN'), { name: 'mine', key: 'METRICS_TOKEN' }],
    monitored,
  ),
  own('metricsToken.key', 'token', secretEntry('token'), 'secret-token', {
    metricsToken: { value: 'secret-token' },
  }),
  inEnv('bootstrap.accountId', 'BOOTSTRAP_ACCOUNT_ID', '0190d3a5-0000-7000-8000-000000000000'),
  own('bootstrap.apiKey', 'sixteen-characters', secretEntry('BOOTSTRAP_API_KEY')),
  inEnv('bootstrap.existingSecret', 'BOOTSTRAP_API_KEY', 'first', secretRef('first', 'BOOTSTRAP_API_KEY')),
  own('bootstrap.key', 'key', env('BOOTSTRAP_API_KEY', 'service'), secretRef('first', 'key'), {
    bootstrap: { existingSecret: 'first' },
  }),
  own(
    'persistence.enabled',
    false,
    (r) => [r.find('PersistentVolumeClaim') ?? null, r.pod('spec.volumes.0', 'service')!],
    [null, { name: 'data', emptyDir: { sizeLimit: '20Gi' } }],
  ),
  own('persistence.size', '1Gi', claim('spec.resources.requests.storage')),
  own('persistence.storageClass', 'fast', claim('spec.storageClassName')),
  own('persistence.accessModes', ['ReadWriteMany'], claim('spec.accessModes')),
  own(
    'persistence.existingClaim',
    'theirs',
    (r) => [
      r.find('PersistentVolumeClaim') ?? null,
      r.pod('spec.volumes.0.persistentVolumeClaim.claimName', 'service')!,
    ],
    [null, 'theirs'],
  ),
  own('persistence.keep', false, claim('metadata.annotations'), null),
  own('type', 'LoadBalancer', inKind('Service', 'spec.type')),
  own(
    'port',
    8080,
    (r) => [
      r.env('SERVICE_PORT', 'service')!,
      at(r.find('Service'), 'spec.ports.0.port')!,
      r.container('ports.0.containerPort', 'service')!,
    ],
    ['8080', 8080, 8080],
  ),
  own('annotations', { a: 'b' }, inKind('Service', 'metadata.annotations')),
  own(
    'ingress.enabled',
    true,
    (r) => [at(r.find('Ingress'), 'spec.rules.0.host')!, r.env('PUBLIC_URL', 'service')!],
    ['m.example', 'http://m.example'],
    { ingress: { host: 'm.example' } },
  ),
  own('ingress.className', 'nginx', inKind('Ingress', 'spec.ingressClassName'), 'nginx', ingress),
  own('ingress.annotations', { a: 'b' }, inKind('Ingress', 'metadata.annotations'), { a: 'b' }, ingress),
  own('ingress.host', 'n.example', inKind('Ingress', 'spec.rules.0.host'), 'n.example', ingress),
  own('ingress.path', '/v', inKind('Ingress', 'spec.rules.0.http.paths.0.path'), '/v', ingress),
  own(
    'ingress.tlsSecret',
    'cert',
    (r) => [at(r.find('Ingress'), 'spec.tls.0')!, r.env('PUBLIC_URL', 'service')!],
    [{ hosts: ['m.example'], secretName: 'cert' }, 'https://m.example'],
    ingress,
  ),
  own('env', { S3: true }, env('S3', 'service'), 'true'),
  own('extraEnv', [{ name: 'A', value: 'b' }], env('A', 'service'), 'b'),
  inContainer('extraEnvFrom', [{ secretRef: { name: 's3' } }], 'envFrom'),
  inPod('extraVolumes', [volume], 'volumes.1', volume),
  inContainer('extraVolumeMounts', [mount], 'volumeMounts.1', mount, { extraVolumes: [volume] }),
  inContainer('resources', { limits: { memory: '2Gi' } }, 'resources.limits.memory', '2Gi'),
  inPod('podSecurityContext', { fsGroup: 7 }, 'securityContext.fsGroup', 7),
  inContainer('securityContext', { runAsUser: 7 }, 'securityContext.runAsUser', 7),
  inContainer('startupProbe', { failureThreshold: 9 }, 'startupProbe.failureThreshold', 9),
  inContainer('readinessProbe', { periodSeconds: 9 }, 'readinessProbe.periodSeconds', 9),
  inContainer('livenessProbe', null, 'livenessProbe', null),
  inContainer('lifecycle', { preStop: { sleep: { seconds: 3 } } }, 'lifecycle'),
  inPod('terminationGracePeriodSeconds', 90),
  own('strategy', { type: 'Recreate' }, workload('spec.strategy', 'service'), { type: 'Recreate' }, SHARED),
  own('podDisruptionBudget.enabled', false, (r) => r.find('PodDisruptionBudget'), null),
  own('podDisruptionBudget.maxUnavailable', 2, inKind('PodDisruptionBudget', 'spec.maxUnavailable')),
  own('podDisruptionBudget.minAvailable', '50%', inKind('PodDisruptionBudget', 'spec.minAvailable')),
  inPod('topologySpreadConstraints', [], 'topologySpreadConstraints', null),
  inPod('nodeSelector', { pool: 'x' }),
  inPod('tolerations', [{ operator: 'Exists' }]),
  inPod('affinity', affinity),
  inPod('priorityClassName', 'high'),
  inPod('runtimeClassName', 'gvisor'),
  own('podAnnotations', { a: 'b' }, pod('metadata.annotations.a', 'service'), 'b'),
  own('podLabels', { tier: 'x' }, pod('metadata.labels.tier', 'service'), 'x'),
  inPod('hostAliases', [{ ip: '10.0.0.1', hostnames: ['a'] }]),
  inPod('dnsPolicy', 'Default'),
  inPod('dnsConfig', { searches: ['x.example'] }),
  own('networkPolicy.enabled', true, inKind('NetworkPolicy', 'spec.ingress'), [
    { ports: [{ port: 'http' }] },
  ]),
  own('networkPolicy.ingressFrom', peers, inKind('NetworkPolicy', 'spec.ingress.0.from.0'), peers[0], {
    networkPolicy: { enabled: true },
  }),
  own('networkPolicy.egress', toDatabase, inKind('NetworkPolicy', 'spec.egress.1'), toDatabase[0], {
    networkPolicy: { enabled: true },
  }),
  own('serviceMonitor.enabled', true, monitor('spec.endpoints.0.port'), 'http'),
  own('serviceMonitor.interval', '15s', monitor('spec.endpoints.0.interval'), '15s', monitored),
  own('serviceMonitor.labels', { release: 'p' }, monitor('metadata.labels.release'), 'p', monitored),
  own(
    'serviceMonitor.metricRelabelings',
    [dropped],
    monitor('spec.endpoints.0.metricRelabelings.0'),
    dropped,
    monitored,
  ),
  own('serviceMonitor.relabelings', [dropped], monitor('spec.endpoints.0.relabelings.0'), dropped, monitored),
];
