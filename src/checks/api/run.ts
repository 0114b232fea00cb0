import type { z } from 'zod';
import { countScripts } from '../api-scripts.ts';
import { AgentFault, type CommonSpec, type Runner } from '../check-type.ts';
import { monitorOf, runMonitor } from '../http-probe/index.ts';
import { runScripted } from './scripted.ts';
import type { ApiFields } from './spec.ts';

export type ApiSpec = z.infer<typeof ApiFields> & CommonSpec;

export const runner: Runner<ApiSpec> = {
  run: async (spec, context) => {
    refuseUnknownSnippets(spec);
    return countScripts(spec) === 0
      ? await runMonitor(monitorOf(spec.request, spec), context)
      : await runScripted(spec, context);
  },
};

/** A check without the code that it was given would be another check. */
function refuseUnknownSnippets(spec: ApiSpec): void {
  const { snippetScripts: code } = spec;
  const isMissing =
    (spec.setupSnippetId !== null && (code?.setup ?? spec.localSetupScript) === null) ||
    (spec.tearDownSnippetId !== null && (code?.tearDown ?? spec.localTearDownScript) === null);
  if (!isMissing) return;
  throw new AgentFault(
    'SNIPPET_MISSING',
    'the check names a snippet, but its definition came without the code of it',
  );
}
