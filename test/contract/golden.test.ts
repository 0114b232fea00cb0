import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { z } from 'zod';
import { checkTypes, findCheckType } from '../../src/checks/index.ts';
import * as contract from '../../src/contract/index.ts';

/**
 * What protocol 1 said on the day it was written down, one file for each message, job and result. Files
 * are added, never edited: an agent of that day still sends and expects exactly this.
 */
const folder = join(import.meta.dirname, 'golden/protocol-1');

const schemas: Readonly<Record<string, z.ZodType>> = {
  FromAgent: contract.FromAgent,
  FromService: contract.FromService,
  Job: contract.Job,
  RunResult: contract.RunResult,
  ResultBatch: contract.ResultBatch,
  ResultReceipts: contract.ResultReceipts,
  OpenSession: contract.OpenSession.body,
  Poll: contract.Poll.body,
  PollReply: contract.PollReply,
  OpenArtifact: contract.OpenArtifact.body,
  ArtifactState: contract.OpenArtifact.reply,
  ArtifactCompleted: contract.CompleteArtifact.reply,
  PostLog: contract.PostLog.body,
};

const files = globSync('*.json', { cwd: folder }).sort();
/** Objects whose keys are data: what is unknown there is kept. */
const OPEN = ['spec', 'phases', 'detail'];

function readGolden(file: string): { schema: z.ZodType; value: unknown } {
  const schema = schemas[file.split('.')[0]!];
  if (schema === undefined) throw new Error(`${file} is named for no schema`);
  return { schema, value: JSON.parse(readFileSync(join(folder, file), 'utf8')) };
}

/** The same with a field that nobody knows in every object. */
function withUnknownFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withUnknownFields);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, each]) => [
    key,
    OPEN.includes(key) ? each : withUnknownFields(each),
  ]);
  return { ...Object.fromEntries(entries), addedLater: { in: ['protocol', 2] } };
}

describe('the golden files of protocol 1', () => {
  test.each(files)('%s is read without loss or addition', (file) => {
    const { schema, value } = readGolden(file);
    expect(schema.parse(value)).toEqual(value);
  });

  test.each(files)('%s is read the same with fields of a later protocol in it', (file) => {
    const { schema, value } = readGolden(file);
    expect(schema.parse(withUnknownFields(value))).toEqual(value);
  });

  const named = (schema: string): string[] =>
    files
      .filter((file) => file.startsWith(`${schema}.`))
      .map((file) => basename(file, '.json').split('.')[1]!);

  test.each([
    ['FromAgent', contract.FromAgent],
    ['FromService', contract.FromService],
  ] as const)('hold every message of %s', (name, union) => {
    const types = union.options.map((option) => option.shape.t.value);
    const missing = types.filter((t) => !named(name).some((file) => file === t || file.startsWith(`${t}-`)));
    expect(missing).toEqual([]);
  });

  test('hold a job of every check type, whose spec the type still reads', () => {
    expect(named('Job').sort()).toEqual(
      checkTypes()
        .map(({ name }) => name.toLowerCase())
        .sort(),
    );
    for (const file of files.filter((each) => each.startsWith('Job.'))) {
      const job = contract.Job.parse(readGolden(file).value);
      const type = findCheckType(job.checkType)!;
      expect({ ...job.spec, ...type.fields.strip().parse(job.spec) }).toMatchObject(job.spec);
    }
  });

  test('hold the whole contract', () => {
    for (const schema of Object.keys(schemas)) expect(named(schema), schema).not.toEqual([]);
  });
});

describe('what no agent may send', () => {
  const hello = readGolden('FromAgent.hello.json').value as { d: Record<string, unknown> };
  const changed = (d: object): unknown => ({ ...hello, d: { ...hello.d, ...d } });

  test.each([
    ['a version with a control character', { agentVersion: '1\u0000' }],
    ['a version of 101 characters', { agentVersion: 'v'.repeat(101) }],
    ['half of a surrogate pair', { agentVersion: '\ud800' }],
    ['no slots', { slots: { total: 0 } }],
    ['more slots than a machine has', { slots: { total: 10_001 } }],
    [
      'an inventory over the bound',
      {
        running: Array.from({ length: 5001 }, () => ({
          runId: 1,
          token: 1,
          phase: 'running',
          startedAgoMs: 0,
        })),
      },
    ],
    [
      'a token that the store cannot hold',
      { running: [{ runId: 1, token: 2 ** 31, phase: 'running', startedAgoMs: 0 }] },
    ],
    [
      'a run that is no safe integer',
      { running: [{ runId: 2 ** 53, token: 1, phase: 'running', startedAgoMs: 0 }] },
    ],
    ['an agent id that is no uuid', { agentId: 'agent-1' }],
  ])('%s', (_what, d) => {
    expect(contract.FromAgent.safeParse(changed(d)).success).toBe(false);
  });

  test('the largest inventory fits into a frame', () => {
    const run = {
      runId: Number.MAX_SAFE_INTEGER,
      token: 2 ** 31 - 1,
      phase: 'running',
      startedAgoMs: 86_400_000.123,
    };
    const full = changed({ running: Array.from({ length: 5000 }, () => run) });
    expect(contract.FromAgent.safeParse(full).success).toBe(true);
    expect(JSON.stringify(full).length).toBeLessThan(contract.MAX_FRAME_BYTES);
  });

  const result = readGolden('RunResult.passed.json').value as Record<string, unknown>;
  test.each([
    ['a time before 1970', { startedAt: '0000-01-01T00:00:00Z' }],
    ['a time without a zone', { startedAt: '2026-11-21T03:00:00' }],
    ['a negative duration', { responseTimeMs: -1 }],
    ['an endless duration', { responseTimeMs: 1e300 }],
    ['a status code that no server has', { statusCode: 70_000 }],
  ])('a result with %s', (_what, change) => {
    expect(contract.RunResult.safeParse({ ...result, ...change }).success).toBe(false);
  });
});
