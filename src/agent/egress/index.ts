/**
 * The way of user code to its targets. A process of ours holds one gate per script process: a port on
 * loopback that is the only one that process may connect to. Hides who resolves names, which address is
 * judged and then connected to, how a gate's connections end with their job, what crossed the policy, and
 * that the process is replaced when it ends. Only TCP has a gate: where the walls are whole, user code has
 * no datagrams at all; where they are not, the policy does not see them.
 */
export { EgressProxy, type EgressOptions, type OpenGate } from './egress-proxy.ts';
export type { Refusal } from './channel.ts';
export type { Asked, BrowserFailure, Told } from './gate-protocol.ts';
