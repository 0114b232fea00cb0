import { readAgentSettings, startAgent } from '../../src/agent/index.ts';
import { createLog } from '../../src/kit/log.ts';
import { STAND_IN_PROBE } from './agent.ts';

/** An agent as a process of its own, for tests that end it without asking. */
const agent = await startAgent(readAgentSettings(process.env).values, {
  log: createLog({ level: 'silent', format: 'json', name: 'agent' }),
  version: '0.1.0',
  probeEntry: STAND_IN_PROBE,
});
await agent.ready;
process.on('SIGTERM', () => void agent.drain());
process.stdout.write(`${agent.healthPort}\n`);
await agent.done;
