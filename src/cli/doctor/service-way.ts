import { getServers } from 'node:dns';
import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { isRefusal, LINK_TIMING, trySocket } from '../../agent/connection/index.ts';
import { wallMs } from '../../kit/clock.ts';
import { codeOf, ExitCode, messageOf } from '../../kit/errors.ts';
import { maskSecret } from '../../kit/ids.ts';
import { failed, ok, unneeded, untried, warning, type Finding, type Hop } from './hop.ts';
import { ask, clockByAnyMeans, connectFirst, openWay, secureWay } from './reach.ts';
import { shownPlace, type Site, type Way } from './site.ts';

/** What usual firewalls drop is given up after this time. */
const LIMIT_MS = 6_000;
/** Further off, one-time passwords, certificates and signatures are refused. */
const CLOCK_LIMIT_MS = 60_000;
const CLOCK_WARNING_MS = 5_000;

type Look = (way: Way, site: Site, signal: AbortSignal) => Promise<Finding> | Finding;

/** A hop on the way to the service: without an address there is none. */
function onWay(
  hop: { name: string; after: readonly string[]; look: Look; late: (way: Way) => Finding },
  limitMs = LIMIT_MS,
): Hop {
  const withoutWay = untried('settings');
  return {
    name: hop.name,
    after: hop.after,
    limitMs,
    look: (site, signal) => (site.way === undefined ? withoutWay : hop.look(site.way, site, signal)),
    late: ({ way }) => (way === undefined ? withoutWay : hop.late(way)),
  };
}

const unreachable = (found: string, remedy: string): Finding =>
  failed(ExitCode.serviceUnreachable, found, remedy);

/** The proxy's setting, or that of the service where there is none. */
const settingOf = ({ proxy: through, proxySetting }: Way): string =>
  through === undefined ? 'AGENT_SERVICE_URL' : proxySetting;

export const name = onWay({
  name: 'name',
  after: [],
  look: async (way) => {
    const { host } = way.first;
    if (isIP(host) !== 0) return unneeded(`${host} is an address`);
    try {
      const found = await lookup(host, { all: true });
      return ok(`${host} is ${found.map(({ address }) => address).join(', ')}`);
    } catch (error) {
      return codeOf(error) === 'ENOTFOUND' ? unknownName(way) : noNameServer(way);
    }
  },
  late: noNameServer,
});

const nameServers = (): string => getServers().join(', ') || 'none';

function unknownName(way: Way): Finding {
  const { host } = way.first;
  return unreachable(
    `the name servers of this machine (${nameServers()}) do not know ${host} (ENOTFOUND)`,
    `Correct ${settingOf(way)}, or have ${host} added to the zone that these name servers answer for`,
  );
}

function noNameServer(way: Way): Finding {
  return unreachable(
    `no name server of this machine answers for ${way.first.host}; asked: ${nameServers()}`,
    'Open UDP and TCP port 53 to them, or set others: nameserver lines in /etc/resolv.conf, docker run --dns, dnsPolicy of a pod',
  );
}

export const connection = onWay({
  name: 'connection',
  after: ['name'],
  look: async (way, _site, signal) => {
    try {
      const socket = await connectFirst(way, signal);
      const found = `${shownPlace(way.first)} accepts connections (as ${socket.remoteAddress ?? ''})`;
      socket.destroy();
      return ok(found);
    } catch (error) {
      return noConnection(way, error);
    }
  },
  late: (way) => noConnection(way, undefined),
});

function noConnection(way: Way, error: unknown): Finding {
  const place = shownPlace(way.first);
  const code = error instanceof AggregateError ? codeOf(error.errors[0]) : codeOf(error);
  if (code === 'ECONNREFUSED') {
    return unreachable(
      `${place} refuses connections (ECONNREFUSED): nothing listens there, or a firewall rejects`,
      `Correct host and port in ${settingOf(way)}, start what should listen there, or open the port in the firewall`,
    );
  }
  if (code === 'ENETUNREACH' || code === 'EHOSTUNREACH' || code === 'ENETDOWN') {
    return unreachable(
      `this machine has no route to ${place} (${code})`,
      'Connect this machine or container to a network that leads there, or set HTTPS_PROXY to a proxy that does',
    );
  }
  const what = error === undefined ? 'it does not answer' : messageOf(error);
  return unreachable(
    `no connection to ${place} comes about: ${what}`,
    `Open outgoing TCP to ${place} in firewalls, security groups and network policies, or set HTTPS_PROXY to a proxy that gets there`,
  );
}

export const proxy = onWay({
  name: 'proxy',
  after: ['connection'],
  look: async (way, _site, signal) => {
    if (way.proxy === undefined) return unneeded('none is set for this address');
    try {
      (await openWay(way, signal)).destroy();
      return ok(`${way.proxy.host} opens a way to ${way.service.host}`);
    } catch (error) {
      return badProxy(way, messageOf(error));
    }
  },
  late: (way) => badProxy(way, `the proxy ${way.proxy?.host} does not answer to CONNECT`),
});

function badProxy(way: Way, found: string): Finding {
  const refuses = / answered 407 /.test(found);
  return unreachable(
    found,
    refuses
      ? `Put user and password into ${way.proxySetting}: http://USER:PASSWORD@HOST:PORT, percent-encoded`
      : `Let the proxy allow CONNECT to ${way.service.host}, or add that host to NO_PROXY where it can be reached directly`,
  );
}

export const tls = onWay({
  name: 'tls',
  after: ['connection', 'proxy'],
  look: async (way, site, signal) => {
    if (way.service.protocol === 'http:')
      return unneeded('AGENT_SERVICE_URL is http://: nothing is encrypted');
    try {
      const { facts, socket } = await secureWay(way, signal);
      socket.destroy();
      const { issuer = 'nobody', validTo = '' } = facts.certificate ?? {};
      return ok(`${facts.protocol}, certificate issued by ${issuer}, valid until ${validTo.slice(0, 10)}`);
    } catch (error) {
      site.hasBadDates = /EXPIRED|NOT_YET_VALID/.test(codeOf(error) ?? '');
      return badTls(way, error);
    }
  },
  late: (way) =>
    unreachable(
      `${way.service.host} does not answer the TLS handshake`,
      'Look whether a firewall lets TLS through to it',
    ),
});

const UNKNOWN_AUTHORITY = /SELF_SIGNED|ISSUER_CERT|VERIFY_LEAF/;

function badTls({ service: { hostname } }: Way, error: unknown): Finding {
  const found = messageOf(error);
  const code = codeOf(error) ?? '';
  const remedyOf = (): string => {
    if (UNKNOWN_AUTHORITY.test(code)) {
      return 'Set NODE_EXTRA_CA_CERTS to a PEM file with that authority; if it is not yours, a proxy or firewall on the way replaces certificates: ask who runs it for its authority';
    }
    if (/EXPIRED|NOT_YET_VALID/.test(code)) {
      return `Set the clock of this machine, which says ${new Date(wallMs()).toISOString()}, or renew the certificate`;
    }
    if (/ALTNAME/.test(code)) {
      return `Use a name of the certificate in AGENT_SERVICE_URL, or have it issued for ${hostname}`;
    }
    return 'Use the port that speaks TLS in AGENT_SERVICE_URL, or look at what stands between this machine and the service';
  };
  return unreachable(found, remedyOf());
}

export const service = onWay({
  name: 'service',
  after: ['name', 'connection', 'proxy', 'tls'],
  look: async ({ service: { host } }, site, signal) => {
    try {
      site.answer = await ask(site, signal);
    } catch (error) {
      return unreachable(
        `${host} does not answer as an HTTP server does: ${messageOf(error)}`,
        'Look whether AGENT_SERVICE_URL names the service, and whether the service runs',
      );
    }
    return judgeAnswer(host, site.answer);
  },
  late: ({ service: { host } }) =>
    unreachable(
      `${host} takes the request and does not answer`,
      'Look at the log of the service and of load balancers before it',
    ),
});

function judgeAnswer(host: string, { status, body }: NonNullable<Site['answer']>): Finding {
  if (isOfService(body)) {
    return status === 503
      ? unreachable(
          `${host} is a Vedette service that takes nothing now (503)`,
          'Wait until the service is ready, and look at its log',
        )
      : ok(`${host} is a Vedette service`);
  }
  if (status >= 502 && status <= 504) {
    return unreachable(
      `what stands before the service at ${host} answers ${status}`,
      'Start the service, and look at the load balancer or proxy before it',
    );
  }
  return unreachable(
    `${host} answers ${status}, but not as a Vedette service does`,
    'Set AGENT_SERVICE_URL to the base address of the service: no path of the interface, and the scheme and port that it listens on',
  );
}

/** Refusals of the interface have its error body; that of a web server or a gateway is another. */
function isOfService(body: string): boolean {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null && 'statusCode' in value && 'message' in value;
  } catch {
    return false;
  }
}

export const key = onWay({
  name: 'key',
  after: ['service'],
  look: (_way, { settings: { apiKey }, answer }) => {
    if (apiKey === undefined) return untried('settings');
    if (answer === undefined) return unneeded('the service was not asked');
    const shown = `API_KEY ${maskSecret(apiKey)}`;
    if (answer.status === 401) {
      return failed(
        ExitCode.keyRefused,
        `the service does not know ${shown}`,
        'Use a live key of the private location: POST /v1/private-locations/{id}/keys makes a new one, which is shown only there',
      );
    }
    if (answer.status === 403) {
      return failed(
        ExitCode.keyRefused,
        `the service refuses ${shown} (403): its location is disabled`,
        'Enable the private location, or use a key of another one',
      );
    }
    return ok(`${shown} is accepted`);
  },
  late: () => untried('service'),
});

export const webSocket = onWay({
  name: 'websocket',
  after: ['service', 'key'],
  look: async (_way, site, signal) => {
    const closed = await trySocket(site.client(), LINK_TIMING, signal);
    if (closed === null) return ok('WebSockets pass');
    if (isRefusal(closed.code)) return unneeded(`no session is begun: ${closed.reason}`);
    return noSocket(closed.reason);
  },
  late: () => noSocket('it is not answered'),
});

const noSocket = (why: string): Finding =>
  warning(
    `WebSockets do not pass (${why}), so the agent uses the long poll, which is slower`,
    'Let proxies and load balancers pass the upgrade of /agent/v1/connect',
  );

export const clock = onWay({
  name: 'clock',
  after: ['connection', 'proxy'],
  look: async (way, site, signal) => {
    const aheadMs =
      site.answer?.clockAheadMs ?? (site.hasBadDates ? await clockByAnyMeans(way, signal) : null);
    if (aheadMs === null) {
      return site.answer === undefined
        ? untried('service')
        : warning('the service tells no time', 'Let proxies pass its Date header');
    }
    const offMs = Math.abs(aheadMs);
    const found = `the clock of this machine is ${shownDuration(offMs)} ${aheadMs > 0 ? 'ahead of' : 'behind'} that of the service`;
    const remedy =
      'Synchronise the clock of this machine (NTP, chrony, or the host that this one runs on), or that of the service';
    if (offMs > CLOCK_LIMIT_MS) return failed(ExitCode.internal, found, remedy);
    return offMs > CLOCK_WARNING_MS ? warning(found, remedy) : ok('agrees with that of the service');
  },
  late: () => untried('service'),
});

function shownDuration(ms: number): string {
  const seconds = Math.round(ms / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} days`;
}
