/**
 * What this agent shows of itself on its health port: readiness, liveness, the state as JSON and
 * metrics for Prometheus, the results also under blackbox_exporter's names. Hides the HTTP server and
 * the metric registry; it changes nothing and survives whatever is sent to it.
 */
export { startHealthServer, type AgentStatus, type HealthServer } from './server.ts';
export { AgentMetrics, type Readings } from './metrics.ts';
