import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { engines, type Engine } from '../support/databases.ts';
import { startAgentProcess, startServiceProcess, type ServiceProcess } from '../support/processes.ts';
import { describeUnless } from '../support/programs.ts';
import { finished, makeCheck, makeLocation, resultsOf, trigger } from '../support/rest.ts';
import { lacksNamespaces, startCutOff } from '../support/targets/namespace.ts';
import { startEntrance } from '../support/targets/relay.ts';

const reason = await lacksNamespaces();

/** The agent reaches its service and nothing else: no target may be blamed for that. */
describeUnless(reason, 'an agent that is cut off from its network blames itself', () => {
  /** In the order to stop them. */
  let begun: readonly { stop(): Promise<unknown> }[] = [];
  const [engine] = engines() as [Engine];
  let service: ServiceProcess;

  beforeAll(async () => {
    await engine.start();
    service = await startServiceProcess(await engine.fresh(), {});
    const location = await makeLocation(service.rest, 'island');
    const island = await startCutOff();
    const entrance = await startEntrance(island.within, service.port);
    const agent = await startAgentProcess(entrance.url, location.key, {}, { within: island.within });
    begun = [agent, entrance, island, service, engine];
  });
  afterAll(async () => {
    for (const each of begun) await each.stop();
  });

  const resolver = /^nameserver\s+(\S+)/m.exec(readFileSync('/etc/resolv.conf', 'utf8'))?.[1] ?? '127.0.0.1';
  const cases = {
    'URL by address': ['url', { request: { url: 'http://192.0.2.1/' } }, /no route to 192\.0\.2\.1/],
    'URL by name': ['url', { request: { url: 'http://target.example/' } }, resolver],
    'TCP by address': ['tcp', { request: { hostname: '192.0.2.1', port: 443 } }, /no route to 192\.0\.2\.1/],
    'TCP by name': ['tcp', { request: { hostname: 'target.example', port: 443 } }, resolver],
    'ICMP by address': [
      'icmp',
      { request: { hostname: '192.0.2.1', pingCount: 1 } },
      /no route to 192\.0\.2\.1/,
    ],
    'ICMP by name': ['icmp', { request: { hostname: 'target.example', pingCount: 1 } }, resolver],
    'DNS of its own resolver': ['dns', { request: { query: 'target.example', recordType: 'A' } }, resolver],
  } as const;

  test.concurrent.each(Object.entries(cases))('%s', async (_name, [type, fields, says]) => {
    const checkId = await makeCheck(service.rest, type, 'island', fields);
    const [session] = await trigger(service.rest, checkId);
    await finished(service.rest, session!, 40_000);
    const [result] = await resultsOf(service.rest, checkId);
    expect(result).toMatchObject({ hasErrors: true, hasFailures: false });
    if (typeof says === 'string') expect(JSON.stringify(result)).toContain(says);
    else expect(JSON.stringify(result)).toMatch(says);
  });

  test('what is reachable still passes', async () => {
    const checkId = await makeCheck(service.rest, 'icmp', 'island', {
      request: { hostname: '127.0.0.1', pingCount: 1 },
    });
    const [session] = await trigger(service.rest, checkId);
    expect(await finished(service.rest, session!)).toMatchObject({ status: 'PASSED' });
  });
});
