import { expect, test } from 'vitest';
import { inNamespace, noNamespaces } from '../../test/support/network-namespace.ts';
import { hasRoute, localFaultOf } from './local-fault.ts';

const failing = (code: string): Error => Object.assign(new Error(`connect ${code}`), { code });
const skipped = noNamespaces === '' ? '' : ` (skipped: needs ${noNamespaces})`;

test.each(['EMFILE', 'EADDRNOTAVAIL', 'EPERM', 'EACCES', 'ENOBUFS', 'EAFNOSUPPORT'])(
  '%s is a fault of this machine',
  async (code) => {
    expect(await localFaultOf(failing(code), '127.0.0.1')).toMatchObject({ name: 'AgentFault', code });
  },
);

test.each(['ECONNREFUSED', 'ECONNRESET', 'ETIMEDOUT', 'EPIPE'])(
  '%s says something about the target',
  async (code) => {
    expect(await localFaultOf(failing(code), '127.0.0.1')).toBeNull();
  },
);

test('a broadcast address is no rule of this machine', async () => {
  expect(await localFaultOf(failing('EACCES'), '255.255.255.255')).toBeNull();
});

test('an unreachable network is the news of a router where this machine has a route', async () => {
  expect(await localFaultOf(failing('ENETUNREACH'), '127.0.0.1')).toBeNull();
  expect(await localFaultOf(new Error('no code'), '127.0.0.1')).toBeNull();
  expect(await hasRoute('127.0.0.1')).toBe(true);
});

test.skipIf(noNamespaces !== '')(`without a route it is a fault of this machine${skipped}`, async () => {
  const module = JSON.stringify(new URL('./local-fault.ts', import.meta.url).href);
  const found = await inNamespace(
    '',
    `const { localFaultOf, hasRoute } = await import(${module});
     const error = Object.assign(new Error('x'), { code: 'ENETUNREACH' });
     const fault = await localFaultOf(error, '192.0.2.1');
     console.log(JSON.stringify([fault.code, fault.message, await hasRoute('2001:db8::1')]));`,
  );
  expect(found).toEqual(['NETWORK_UNREACHABLE', 'this machine has no route to 192.0.2.1', false]);
});
