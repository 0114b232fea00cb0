import { createEnvironment, execute } from '../../checks/execute.ts';
import { warmUp } from '../../checks/warm-up.ts';
import { serveProbe } from './serve.ts';

/** Entry of a probe process. */
serveProbe((setup) => {
  const environment = createEnvironment(setup);
  const warm = warmUp(environment);
  return async (job, signal, scripts) => {
    await warm;
    return execute(job, environment, signal, scripts);
  };
});
