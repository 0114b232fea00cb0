/**
 * HTTP requests as a monitor makes them: a new connection each time, exact phases, redirects, address
 * families, TLS with facts, proxies, bodies decoded and bounded; and the verdict rules that URL and API
 * checks share. Hides node:http, node:tls and every oddity of servers. What the target did wrong is in
 * the outcome; only the agent's own faults throw.
 */
export { type Aftermath, type HttpMonitor, runMonitor, type Scripted, stoppedInSetup } from './monitor.ts';
export { filledAssertions, type HttpTarget, monitorOf } from './target.ts';
export { probe, type ProbeRequest, type ProbeResponse, type ProbeResult } from './probe.ts';
export { openTunnel, parseProxy, type Proxy, proxyUnreachable } from './proxy.ts';
export { TargetFailure } from './failure.ts';
export { renewTls, secure, type Secured, warmTls } from './tls.ts';
