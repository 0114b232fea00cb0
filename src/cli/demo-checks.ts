import { findCheckType } from '../checks/index.ts';
import { DEMO_HOST, DEMO_NAME, type DemoPorts } from './demo-target.ts';

/** One example check as the REST interface takes it. */
export interface DemoCheck {
  /** Remembers which check this became; never shown. */
  key: string;
  /** Path of its type's checks: `/v1/checks/url`. */
  path: string;
  definition: Record<string, unknown>;
}

/** One check per type, every ten seconds, and one that shows what a failure looks like. */
export function demoChecks(ports: DemoPorts, location: string): DemoCheck[] {
  const site = `http://${DEMO_HOST}:${ports.http}`;
  const check = (
    key: string,
    checkType: string,
    name: string,
    request: Record<string, unknown>,
    more: Record<string, unknown> = {},
  ): DemoCheck => ({
    key,
    path: `/v1/checks/${findCheckType(checkType)!.route}`,
    definition: {
      name,
      tags: ['example'],
      frequency: 0,
      frequencyOffset: 10,
      privateLocations: [location],
      retryStrategy: null,
      request,
      ...more,
    },
  });
  return [
    check('page', 'URL', 'Demo page', {
      url: `${site}/`,
      assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
    }),
    check('api', 'API', 'Demo API', {
      url: `${site}/api/status`,
      assertions: [
        { source: 'JSON_BODY', property: '$.status', comparison: 'EQUALS', target: 'ok' },
        { source: 'JSON_BODY', property: '$.services[0].healthy', comparison: 'EQUALS', target: 'true' },
        { source: 'HEADERS', property: 'content-type', comparison: 'CONTAINS', target: 'json' },
      ],
    }),
    check('echo', 'TCP', 'Demo echo port', {
      hostname: DEMO_HOST,
      port: ports.tcp,
      data: 'hello',
      assertions: [{ source: 'RESPONSE_DATA', comparison: 'CONTAINS', target: 'hello' }],
    }),
    check('name', 'DNS', 'Demo name server', {
      query: DEMO_NAME,
      recordType: 'A',
      nameServer: DEMO_HOST,
      port: ports.dns,
      assertions: [{ source: 'TEXT_ANSWER', comparison: 'CONTAINS', target: DEMO_HOST }],
    }),
    check('ping', 'ICMP', 'This machine', { hostname: '127.0.0.1', pingCount: 3 }),
    check('outage', 'URL', 'Demo outage (fails on purpose)', {
      url: `${site}/outage`,
      assertions: [{ source: 'STATUS_CODE', comparison: 'EQUALS', target: '200' }],
    }),
  ];
}
