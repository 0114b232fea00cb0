import type { Hop } from './hop.ts';
import { dataFolder, healthPort, machine } from './machine.ts';
import { clock, connection, key, name, proxy, service, tls, webSocket } from './service-way.ts';
import { authorities, settings } from './set-up.ts';
import { browser, registry, runtimes, scripts, suiteTools } from './user-code.ts';
import { icmp, probes, sandbox, targetNames } from './walls.ts';

/** In this order: what stands in the way of most comes first, and decides the exit code. */
export const hops: readonly Hop[] = [
  settings,
  authorities,
  name,
  connection,
  proxy,
  tls,
  service,
  key,
  webSocket,
  clock,
  dataFolder,
  healthPort,
  machine,
  sandbox,
  probes,
  targetNames,
  icmp,
  runtimes,
  scripts,
  browser,
  suiteTools,
  registry,
];
