import { z } from 'zod';
import { ArtifactKind } from '../../contract/index.ts';
import type { FromScript } from './protocol.ts';

/** User code may have changed the clock that its process reads. */
const Epoch = z.number().catch(0);
const Place = z.int().min(0).optional().catch(undefined);

const ScriptError = z.object({
  message: z.string(),
  stack: z.string().optional(),
  file: z.string().optional(),
  line: Place,
  column: Place,
  soft: z.boolean().optional(),
});

const Texts = z.record(z.string(), z.string());
const Request = z.object({
  method: z.string(),
  url: z.string(),
  body: z.string(),
  headers: Texts,
  queryParameters: Texts,
});
const Response = z.object({
  statusCode: z.number(),
  statusText: z.string(),
  headers: z.record(z.string(), z.unknown()),
  body: z.string(),
  timings: z.record(z.string(), z.number()),
  timingPhases: z.record(z.string(), z.number()),
});
const Phase = z.enum(['setup', 'teardown']);

const message = <T extends string, S extends z.ZodRawShape>(t: T, shape: S) =>
  z.object({ t: z.literal(t), ...shape });

/** What a child may say. User code can reach its channel, so every word is looked at. */
const Message = z.discriminatedUnion('t', [
  message('ready', {}),
  message('log', {
    at: Epoch,
    level: z.enum(['debug', 'info', 'warn', 'error']),
    text: z.string(),
  }),
  message('secret', { value: z.string() }),
  message('findings', {
    detail: z.record(z.string(), z.unknown()),
    files: z.array(z.object({ path: z.string(), kind: ArtifactKind, name: z.string() })),
  }),
  message('done', {
    startTime: Epoch,
    endTime: Epoch,
    verdict: z.enum(['passed', 'failed', 'timed_out']),
    errors: z.array(ScriptError),
    degraded: z.array(z.string()),
  }),
  message('phase-done', {
    phase: Phase,
    error: ScriptError.nullable(),
    env: Texts,
    request: Request,
    response: Response.nullable(),
  }),
  message('leaving', { call: z.string(), code: z.number(), error: ScriptError }),
]);

/** @throws SyntaxError or ZodError when the line is none of the messages */
export function readScriptMessage(line: string): FromScript {
  return Message.parse(JSON.parse(line));
}
