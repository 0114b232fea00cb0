import { Socket } from 'node:net';
import * as tls from 'node:tls';
import { renewTls } from '../../checks/http-probe/index.ts';
import { createResolver } from '../../checks/resolver/index.ts';
import type { Resolver } from '../../checks/resolve.ts';
import { parsePolicy } from '../../checks/target-policy/index.ts';
import { openChannel, type EgressSetup, type FromEgress, type ToEgress } from './channel.ts';
import { Dialer } from './dialer.ts';
import { Gate } from './gate.ts';

/** Entry of the egress process. It ends when its channel does, so it never outlives the agent. */
const stream = new Socket({ fd: 3, readable: true, writable: true });
stream.on('error', () => process.exit(1));
stream.on('close', () => process.exit(0));

const gates = new Map<number, Gate>();
let agentPorts: readonly number[] = [];
let setup: EgressSetup | undefined;
let resolver: Resolver | undefined;

const isOwnPort = (port: number): boolean =>
  agentPorts.includes(port) || gates.values().some((gate) => gate.port === port);

const resolverOf = ({ useOsResolver, servers }: EgressSetup): Resolver =>
  createResolver({ useOsResolver, ...(servers === undefined ? {} : { servers }) });

function dialerFor(allowed: string): Dialer {
  const { policy } = setup!;
  // Where everything is allowed, one entry more must not close the rest.
  const own = policy.allowed.trim() === '' ? '*' : policy.allowed;
  const targets = parsePolicy(policy.blocked, `${own} ${allowed}`);
  return new Dialer({ resolver: resolver!, targets, isOwnPort });
}

async function open(n: number, port: number, allowed: string): Promise<void> {
  const noProxy = setup!.noProxy ?? '';
  const gate = new Gate(dialerFor(allowed), noProxy, (refusal) => send({ t: 'refused', n, refusal }));
  gates.set(n, gate);
  try {
    send({ t: 'opened', n, port: await gate.listen(port) });
  } catch (error) {
    gates.delete(n);
    send({ t: 'not-opened', n, why: String(error) });
  }
}

/** Node read the file when it began, and it may have lost some since. */
function trust(authorities: readonly string[]): void {
  const own = [...tls.getCACertificates('bundled'), ...tls.getCACertificates('system')];
  tls.setDefaultCACertificates([...own, ...authorities]);
  renewTls();
}

function receive(message: ToEgress): void {
  switch (message.t) {
    case 'setup':
      setup = message.setup;
      resolver = resolverOf(message.setup);
      send({ t: 'ready' });
      break;
    case 'open':
      void open(message.n, message.port, message.allowed);
      break;
    case 'close':
      gates.get(message.n)?.close();
      gates.delete(message.n);
      break;
    case 'lead':
      gates.get(message.n)?.lead(message.proxyUrl, message.direct);
      send({ t: 'led', n: message.n });
      break;
    case 'trust':
      trust(message.authorities);
      break;
    case 'own-ports':
      agentPorts = message.ports;
      break;
  }
}

const send = openChannel<FromEgress, ToEgress>(stream, receive);
