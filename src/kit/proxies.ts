import { BlockList, isIP } from 'node:net';

export interface ProxySettings {
  httpsProxy: string | undefined;
  httpProxy: string | undefined;
  /** As in NO_PROXY: hosts, .domains, CIDRs, host:port, `*`; separated by commas or blanks. */
  noProxy: string;
}

/** The proxy that leads to `target`, or undefined for a direct connection. */
export function proxyFor(target: URL, settings: ProxySettings): URL | undefined {
  const proxy = target.protocol === 'https:' ? settings.httpsProxy : settings.httpProxy;
  if (proxy === undefined) return undefined;
  const usual = target.protocol === 'https:' ? 443 : 80;
  const place = { host: target.hostname, port: Number(target.port || usual) };
  return goesDirect(place, settings.noProxy) ? undefined : new URL(proxy);
}

export interface Place {
  /** A name, or an address with or without brackets. */
  host: string;
  port: number;
}

/** Whether no proxy is to be used for this target. */
export function goesDirect(target: Place, noProxy: string): boolean {
  return noProxy.split(/[\s,]+/).some((entry) => entry !== '' && covers(entry, target));
}

function covers(entry: string, target: Place): boolean {
  if (entry === '*') return true;
  const host = target.host
    .replace(/^\[|\]$/g, '')
    .replace(/\.$/, '')
    .toLowerCase();
  if (entry.includes('/')) return inSubnet(entry, host);
  const withPort = /^(.*):(\d+)$/.exec(entry);
  if (withPort !== null && isIP(entry) === 0) {
    return Number(withPort[2]) === target.port && covers(withPort[1]!, target);
  }
  const domain = entry
    .replace(/^\*?\./, '')
    .replace(/^\[|\]$/g, '')
    .toLowerCase();
  return host === domain || (isIP(host) === 0 && host.endsWith(`.${domain}`));
}

function inSubnet(entry: string, host: string): boolean {
  const [network = '', bits] = entry.split('/');
  const family = isIP(host);
  if (family === 0 || family !== isIP(network)) return false;
  const list = new BlockList();
  const type = family === 4 ? 'ipv4' : 'ipv6';
  try {
    list.addSubnet(network, Number(bits), type);
  } catch {
    return false;
  }
  return list.check(host, type);
}
