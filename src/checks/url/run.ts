import type { z } from 'zod';
import type { CommonSpec, Runner } from '../check-type.ts';
import { type HttpTarget, monitorOf, runMonitor } from '../http-probe/index.ts';
import type { UrlFields } from './spec.ts';

type UrlSpec = z.infer<typeof UrlFields> & CommonSpec;

/** A URL monitor is a GET without headers or body of its own. */
export const runner: Runner<UrlSpec> = {
  run: async (spec, context) => await runMonitor(monitorOf(targetOf(spec), spec), context),
};

function targetOf({ request }: UrlSpec): HttpTarget {
  return { ...request, body: '', bodyType: 'NONE', headers: [], queryParameters: [], basicAuth: null };
}
