import type { z } from 'zod';
import type { CommonSpec, Runner } from '../check-type.ts';
import { monitorOf, runMonitor } from '../http-probe/index.ts';
import type { ApiFields } from './spec.ts';

export const runner: Runner<z.infer<typeof ApiFields> & CommonSpec> = {
  run: async (spec, context) => await runMonitor(monitorOf(spec.request, spec), context),
};
