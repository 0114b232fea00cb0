import { at, type Json, type Rendered, type Values } from './chart.ts';
import { inKind, type ValueTest } from './lookups.ts';

const metrics = (room: string, more: Values = {}): Values => ({
  metrics: { [room]: { enabled: true, ...more } },
});
const under = (room: string, path: string, set: unknown, shows: string, as: unknown = set): ValueTest => ({
  path: `${room}.${path}`,
  set,
  also: { [room]: { enabled: true, queue: { enabled: true } }, agent: { location: 'office' } },
  shows: inKind('HorizontalPodAutoscaler', `spec.${shows}`),
  as,
});
const keda = (path: string, set: unknown, shows: string, as: unknown = set): ValueTest => ({
  path: `keda.${path}`,
  set,
  also: { keda: { enabled: true }, agent: { location: 'office' } },
  shows: inKind('ScaledObject', `spec.${shows}`),
  as,
});
const network = (path: string, set: unknown, shows: string, as: unknown): ValueTest => ({
  path: `networkPolicy.${path}`,
  set,
  also: { networkPolicy: { enabled: true } },
  shows: inKind('NetworkPolicy', `spec.${shows}`),
  as,
});
const monitor = (room: 'podMonitor' | 'serviceMonitor', kind: string, endpoints: string): ValueTest[] => [
  {
    path: `metrics.${room}.enabled`,
    set: true,
    shows: inKind(kind, `spec.${endpoints}.0.port`),
    as: 'health',
  },
  {
    path: `metrics.${room}.interval`,
    set: '15s',
    also: metrics(room),
    shows: inKind(kind, `spec.${endpoints}.0.interval`),
    as: '15s',
  },
  {
    path: `metrics.${room}.labels`,
    set: { release: 'prom' },
    also: metrics(room),
    shows: inKind(kind, 'metadata.labels.release'),
    as: 'prom',
  },
  {
    path: `metrics.${room}.metricRelabelings`,
    set: [dropped],
    also: metrics(room),
    shows: inKind(kind, `spec.${endpoints}.0.metricRelabelings`),
    as: [dropped],
  },
  {
    path: `metrics.${room}.relabelings`,
    set: [dropped],
    also: metrics(room),
    shows: inKind(kind, `spec.${endpoints}.0.relabelings`),
    as: [dropped],
  },
];

const dropped = { action: 'drop', sourceLabels: ['__name__'], regex: 'nodejs_.*' };
const rules = (r: Rendered): Json[] => at(r.find('PrometheusRule'), 'spec.groups.0.rules') as Json[];
const named = (r: Rendered, alert: string): Json | undefined =>
  rules(r).find((rule) => at(rule, 'alert') === alert);
const behavior = { scaleDown: { selectPolicy: 'Disabled' } };
const peers = [{ namespaceSelector: { matchLabels: { name: 'monitoring' } } }];
const targets = [{ to: [{ ipBlock: { cidr: '10.0.0.0/8' } }], ports: [{ port: 443 }] }];
const cron = {
  type: 'cron',
  metadata: { timezone: 'UTC', start: '0 8 * * *', end: '0 18 * * *', desiredReplicas: '4' },
};
const podMetric = {
  type: 'Pods',
  pods: { metric: { name: 'vedette_agent_runs' }, target: { type: 'AverageValue', averageValue: '4' } },
};

export const OPERATIONS_VALUES: readonly ValueTest[] = [
  {
    path: 'autoscaling.enabled',
    set: true,
    // A number beside a scaler would be fought over at each upgrade.
    shows: (r) => [
      at(r.find('HorizontalPodAutoscaler'), 'spec.scaleTargetRef')!,
      at(r.find('Deployment'), 'spec.replicas') ?? null,
    ],
    as: [{ apiVersion: 'apps/v1', kind: 'Deployment', name: 'demo-vedette-agent' }, null],
  },
  under('autoscaling', 'minReplicas', 3, 'minReplicas'),
  under('autoscaling', 'maxReplicas', 30, 'maxReplicas'),
  under('autoscaling', 'targetCPUUtilizationPercentage', 55, 'metrics.0.resource.target.averageUtilization'),
  under('autoscaling', 'targetMemoryUtilizationPercentage', 80, 'metrics.1.resource', {
    name: 'memory',
    target: { type: 'Utilization', averageUtilization: 80 },
  }),
  under('autoscaling', 'queue.enabled', true, 'metrics.1.external', {
    metric: { name: 'vedette_location_load', selector: { matchLabels: { location: 'office' } } },
    target: { type: 'AverageValue', averageValue: '4' },
  }),
  under('autoscaling', 'queue.metricName', 'mine', 'metrics.1.external.metric.name'),
  under('autoscaling', 'queue.target', 9, 'metrics.1.external.target.averageValue', '9'),
  under('autoscaling', 'metrics', [podMetric], 'metrics.2', podMetric),
  under('autoscaling', 'behavior', behavior, 'behavior.scaleDown.selectPolicy', 'Disabled'),

  {
    path: 'keda.enabled',
    set: true,
    also: { agent: { location: 'office', jobConcurrency: 6 }, persistence: { enabled: true } },
    shows: (r) => [
      at(r.find('ScaledObject'), 'spec.scaleTargetRef.kind')!,
      at(r.find('StatefulSet'), 'spec.replicas') ?? null,
      at(r.find('ScaledObject'), 'spec.triggers.0.metadata')!,
    ],
    as: [
      'StatefulSet',
      null,
      {
        serverAddress: 'http://prometheus-operated.monitoring.svc:9090',
        query:
          'max(vedette_location_queue_size{location="office"}) + max(vedette_location_runs_in_flight{location="office"})',
        threshold: '6',
      },
    ],
  },
  keda('minReplicas', 3, 'minReplicaCount'),
  keda('maxReplicas', 30, 'maxReplicaCount'),
  keda('pollingInterval', 15, 'pollingInterval'),
  keda('cooldownPeriod', 60, 'cooldownPeriod'),
  keda('threshold', 9, 'triggers.0.metadata.threshold', '9'),
  keda('prometheus.serverAddress', 'http://p:9090', 'triggers.0.metadata.serverAddress'),
  keda('prometheus.query', 'sum(x)', 'triggers.0.metadata.query'),
  keda('prometheus.authenticationRef', 'prom', 'triggers.0.authenticationRef', { name: 'prom' }),
  keda('fallback.failureThreshold', 2, 'fallback.failureThreshold'),
  keda('fallback.replicas', 6, 'fallback.replicas'),
  keda('triggers', [cron], 'triggers.1', cron),
  keda(
    'behavior',
    behavior,
    'advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.selectPolicy',
    'Disabled',
  ),

  network('enabled', true, 'policyTypes', ['Ingress', 'Egress']),
  network('ingressFrom', peers, 'ingress.0', { from: peers, ports: [{ port: 'health' }] }),
  network('serviceCidrs', ['203.0.113.0/24'], 'egress.1', {
    to: [{ ipBlock: { cidr: '203.0.113.0/24' } }],
    ports: [{ port: 443 }],
  }),
  network('exceptCidrs', ['169.254.169.254/32'], 'egress.1.to', [
    { ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.169.254/32'] } },
    { ipBlock: { cidr: '::/0' } },
  ]),
  network('dnsTo', peers, 'egress.0.to', peers),
  network('egress', targets, 'egress.2', targets[0]),

  {
    path: 'metrics.port',
    set: 9000,
    shows: (r) => [r.container('ports')!, r.env('AGENT_HEALTH_PORT')!],
    as: [[{ name: 'health', containerPort: 9000 }], '9000'],
  },
  ...monitor('podMonitor', 'PodMonitor', 'podMetricsEndpoints'),
  ...monitor('serviceMonitor', 'ServiceMonitor', 'endpoints'),
  {
    path: 'metrics.prometheusRule.enabled',
    set: true,
    shows: (r) => rules(r).map((rule) => at(rule, 'alert') ?? at(rule, 'record') ?? null),
    as: [
      'vedette_location_load',
      'VedetteLocationStoppedReporting',
      'VedetteLocationUnderProvisioned',
      'VedetteRunsLost',
      'VedetteAgentsOutdated',
      'VedetteAgentsDisconnected',
      'VedetteResultsLost',
      'VedetteResultsWaiting',
      'VedetteSandboxNotFull',
    ],
  },
  {
    path: 'metrics.prometheusRule.labels',
    set: { release: 'prom' },
    also: metrics('prometheusRule'),
    shows: inKind('PrometheusRule', 'metadata.labels.release'),
    as: 'prom',
  },
  {
    path: 'metrics.prometheusRule.alertLabels',
    set: { team: 'sre' },
    also: metrics('prometheusRule'),
    shows: (r) => at(named(r, 'VedetteRunsLost'), 'labels'),
    as: { severity: 'critical', team: 'sre' },
  },
  {
    path: 'metrics.prometheusRule.disabled',
    set: ['VedetteSandboxNotFull'],
    also: metrics('prometheusRule'),
    shows: (r) => [named(r, 'VedetteSandboxNotFull') ?? null, rules(r).length],
    as: [null, 8],
  },
  {
    path: 'metrics.prometheusRule.queueAgeSeconds',
    set: 120,
    also: metrics('prometheusRule'),
    shows: (r) => at(named(r, 'VedetteLocationUnderProvisioned'), 'expr'),
    as: 'max by (location) (vedette_location_oldest_run_age_seconds) > 120',
  },
  {
    path: 'metrics.prometheusRule.extraRules',
    set: [{ alert: 'Mine', expr: 'up == 0' }],
    also: metrics('prometheusRule'),
    shows: (r) => named(r, 'Mine'),
    as: { alert: 'Mine', expr: 'up == 0' },
  },
  {
    path: 'metrics.dashboard.enabled',
    set: true,
    shows: (r) => Object.keys(at(r.find('ConfigMap'), 'data') as object),
    as: ['vedette.json'],
  },
  {
    path: 'metrics.dashboard.labels',
    set: { mine: '1' },
    also: metrics('dashboard'),
    shows: inKind('ConfigMap', 'metadata.labels.mine'),
    as: '1',
  },
  {
    path: 'metrics.dashboard.annotations',
    set: { folder: 'Synthetics' },
    also: metrics('dashboard'),
    shows: inKind('ConfigMap', 'metadata.annotations'),
    as: { folder: 'Synthetics' },
  },
  {
    path: 'metrics.dashboard.namespace',
    set: 'grafana',
    also: metrics('dashboard'),
    shows: inKind('ConfigMap', 'metadata.namespace'),
    as: 'grafana',
  },
];
