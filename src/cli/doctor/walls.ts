import { isIP } from 'node:net';
import { requireWalls, sandboxReport } from '../../agent/sandbox/index.ts';
import { AgentFault } from '../../checks/check-type.ts';
import { NameError } from '../../checks/resolve.ts';
import { createResolver } from '../../checks/resolver/index.ts';
import { checkSchema, findCheckType } from '../../checks/index.ts';
import { sleep } from '../../kit/clock.ts';
import { ExitCode, messageOf } from '../../kit/errors.ts';
import { jobOf } from '../run-script.ts';
import { failed, ok, unneeded, untried, warning, type Finding, type Hop } from './hop.ts';
import { ICMP_CHECKS } from './kinds.ts';
import { placeOf } from './site.ts';

/** The trial of the walls starts a process or two. */
const SANDBOX_MS = 10_000;
const START_MS = 10_000;
const PING_MS = 8_000;
const NAME_MS = 6_000;
const LOOK_EVERY_MS = 20;

const KERNEL =
  'Use a kernel with Landlock (Linux 6.12 or newer for every wall) and a container runtime that lets landlock and seccomp calls through';

export const sandbox: Hop = {
  name: 'sandbox',
  limitMs: SANDBOX_MS,
  look: ({ settings: { sandbox: mode }, log }) => {
    if (mode === undefined) return untried('settings');
    try {
      requireWalls(mode, log);
    } catch (error) {
      return failed(ExitCode.usage, messageOf(error), `${KERNEL}, or set SANDBOX=best-effort`);
    }
    const { state, missing } = sandboxReport();
    if (state === 'full') return ok('full: every wall around user code stands');
    return warning(`${state}: ${missing.join('. ')}`, KERNEL);
  },
  late: () =>
    failed(ExitCode.internal, 'the walls could not be tried in time', 'Give this machine more processors'),
};

/** One process as the agent has them for most checks. */
export const probes: Hop = {
  name: 'probes',
  after: ['sandbox'],
  limitMs: START_MS,
  look: async (site, signal) => {
    const pool = site.pool();
    while (!pool.ready && !signal.aborted) {
      if (pool.startError !== undefined) return noProbe(pool.startError);
      await sleep(LOOK_EVERY_MS, signal).catch(() => {});
    }
    return ok('a probe process starts behind its walls');
  },
  late: (site) => noProbe(site.pool().startError ?? 'it is not ready in time'),
};

const noProbe = (why: string): Finding =>
  failed(
    ExitCode.internal,
    `no probe process starts: ${why.split('\n')[0]}`,
    'Look whether the installation is whole and readable, and whether memory, processes and seccomp rules of this container allow children',
  );

/** Targets are looked up by the agent's own resolver, which is not that of the system. */
export const targetNames: Hop = {
  name: 'target-names',
  limitMs: NAME_MS,
  look: async ({ settings: { useOsResolver, serviceUrl } }, signal) => {
    if (useOsResolver === undefined) return untried('settings');
    const host = serviceUrl === undefined ? 'localhost' : placeOf(new URL(serviceUrl)).host;
    if (isIP(host) !== 0) return unneeded('the service has an address, so there is no name to try');
    try {
      const { source } = await createResolver({ useOsResolver }).resolve(host, 4, signal);
      return ok(`${host} is found, says ${source}`);
    } catch (error) {
      if (error instanceof AgentFault) return noResolver(messageOf(error));
      if (!(error instanceof NameError)) throw error;
      return warning(
        `${messageOf(error)}; checks would not find it`,
        'Set USE_OS_DNS_RESOLVER=on where only the operating system knows the names of targets',
      );
    }
  },
  late: () => noResolver('no name server answers in time'),
};

const noResolver = (why: string): Finding =>
  failed(
    ExitCode.internal,
    `names of targets cannot be looked up: ${why}`,
    'Make the name servers in /etc/resolv.conf reachable by UDP and TCP port 53, or set USE_OS_DNS_RESOLVER=on',
  );

/** A ping to this machine, from a process as the agent has it for ICMP checks. */
export const icmp: Hop = {
  name: 'icmp',
  after: ['probes'],
  limitMs: PING_MS,
  look: async (site, signal) => {
    const pool = site.pool();
    pool.pingTypes = new Set([ICMP_CHECKS]);
    const type = findCheckType(ICMP_CHECKS)!;
    const request = { hostname: '127.0.0.1', pingCount: 1 };
    const spec = checkSchema(type).parse({ name: 'doctor', request, privateLocations: ['here'] });
    try {
      const finished = await pool.run(jobOf({ type, name: 'doctor', spec }), signal);
      const [error] = finished?.report.errors ?? [];
      return error === undefined ? ok('a probe process can ping') : noPing(error.message);
    } catch (error) {
      return noPing(messageOf(error));
    }
  },
  late: () => noPing('no ping came back in time'),
};

const noPing = (why: string): Finding => ({
  ...failed(
    ExitCode.internal,
    why.split('. One of these')[0]!,
    'Allow the group of this user in the sysctl net.ipv4.ping_group_range (docker run --sysctl, securityContext.sysctls: "0 2147483647"), or give the capability NET_RAW',
  ),
  notServed: [ICMP_CHECKS],
});
