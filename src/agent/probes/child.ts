import { createEnvironment, execute } from '../../checks/execute.ts';
import { serveProbe } from './serve.ts';

/** Entry of a probe process. */
serveProbe((setup) => {
  const environment = createEnvironment(setup);
  return (job, signal) => execute(job, environment, signal);
});
