/**
 * The agent: takes runs from the service, has them run in sandboxed processes and brings the results
 * back, whatever happens to the network, the service or itself in between. It runs no code of users,
 * opens no connection to targets and holds the only copy of the key. `startAgent` is the way in;
 * its rooms: connection, dispatch, admission, probes, sandbox, spool, health.
 */
export { startAgent, type AgentOptions, type Once, type RunningAgent } from './start.ts';
export { agentSettings, readAgentSettings, type AgentSettings } from './settings.ts';
