import { z } from 'zod';
import * as verbs from '../../verbs/index.ts';
import { artifactId, type ArtifactRow, type ResultRow } from '../../store/index.ts';
import { FileAnswer } from '../file-answer.ts';
import { matchesGlob } from '../glob.ts';
import { route, type Route } from '../route.ts';
import { CheckTypeName } from './shapes.ts';

const tag = 'check results';

/** Entries of one answer; a result has a handful, a suite of many tests some hundreds. */
const MAX_ENTRIES = 1000;

const ASSET_TYPES = ['log', 'trace', 'video', 'screenshot', 'pcap', 'report', 'file'] as const;
type AssetType = (typeof ASSET_TYPES)[number];

const Asset = z
  .strictObject({
    type: z.enum(ASSET_TYPES),
    name: z.string(),
    url: z.url().describe('Where the bytes are; asked for with the API key'),
    contentType: z.string(),
    size: z.int().describe('Bytes'),
    state: z
      .enum(['pending', 'stored', 'refused'])
      .describe('pending: on its way from the agent; refused: it never comes, and reason says why'),
    reason: z.string().nullable(),
    source: z.strictObject({
      type: z.enum(['check-result', 'test-session-result']),
      checkId: z.uuid().nullable(),
      checkName: z.string(),
      checkType: CheckTypeName,
      resultId: z.uuid(),
      testSessionId: z.uuid().optional(),
    }),
  })
  .meta({ id: 'Asset' });

export const AssetList = z
  .strictObject({
    assets: z.array(Asset),
    truncated: z.boolean(),
    entriesReturned: z.int(),
    entriesTotal: z.int(),
  })
  .meta({ id: 'AssetList' });

export const AssetQuery = z.strictObject({
  type: z.array(z.enum(ASSET_TYPES)).optional().describe('Any of these'),
  name: z.string().max(200).optional().describe('* stands for any characters, ? for one'),
});

/** Pictures of a visual comparison are pictures. */
const typeOf = (kind: string): AssetType =>
  kind === 'snapshot' ? 'screenshot' : (ASSET_TYPES.find((type) => type === kind) ?? 'file');

/** Where a check result is read. */
export const resultUrl = (publicUrl: string, { check_id, id }: ResultRow): string =>
  `${publicUrl}/v1/check-results/${check_id}/${id}`;

/** The address of an artifact that a result names. @param url where the result is read */
export const assetUrl = (url: string, result: ResultRow, name: string): string =>
  `${url}/assets/${artifactId(result.id, name)}`;

type ShownAsset = z.input<typeof Asset>;

function showAsset(row: ArtifactRow, result: ResultRow, publicUrl: string): ShownAsset {
  return {
    ...showFile(row, resultUrl(publicUrl, result)),
    source: { type: 'check-result', checkId: result.check_id, ...sourceOf(result) },
  };
}

/** @param of the result, and where it is read */
export function showTestAsset(
  row: ArtifactRow,
  of: { result: ResultRow; checkId: string | null; testSessionId: string; url: string },
): ShownAsset {
  const { result, checkId, testSessionId, url } = of;
  const source = { type: 'test-session-result' as const, checkId, ...sourceOf(result), testSessionId };
  return { ...showFile(row, url), source };
}

const showFile = (row: ArtifactRow, url: string): Omit<ShownAsset, 'source'> => ({
  type: typeOf(row.kind),
  name: row.name,
  url: `${url}/assets/${row.id}`,
  contentType: row.content_type,
  size: row.size,
  state: row.state,
  reason: row.reason,
});

const sourceOf = (result: ResultRow) => ({
  checkName: result.name,
  checkType: CheckTypeName.parse(result.check_type),
  resultId: result.id,
});

/** Those that are asked for, as many as fit into one answer. */
export function listOf(
  assets: readonly ShownAsset[],
  { type: types, name: pattern }: z.output<typeof AssetQuery>,
): z.input<typeof AssetList> {
  const fitting = assets
    .filter(({ type }) => types === undefined || types.includes(type))
    .filter(({ name }) => pattern === undefined || matchesGlob(name, pattern));
  const shown = fitting.slice(0, MAX_ENTRIES);
  return {
    assets: shown,
    truncated: shown.length < fitting.length,
    entriesReturned: shown.length,
    entriesTotal: fitting.length,
  };
}

export const assetRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/check-results/{checkId}/{checkResultId}/assets',
      tag,
      summary: 'List the files of a check result: screenshots, traces, videos, reports',
      query: AssetQuery,
      status: 200,
      reply: AssetList,
      errors: [404],
    },
    async (caller, { params, query }) => {
      const { result, assets } = await verbs.listAssets(caller, params.checkId, params.checkResultId);
      return listOf(
        assets.map((row) => showAsset(row, result, caller.publicUrl)),
        query,
      );
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/check-results/{checkId}/{checkResultId}/assets/{assetId}',
      tag,
      summary: 'Download a file of a check result, or with the header Range a part of it',
      status: 200,
      file: true,
      errors: [404, 409, 416],
    },
    async (caller, { params, asked }) => {
      const { checkId, checkResultId, assetId } = params;
      const { asset, read } = await verbs.openAsset(caller, checkId, checkResultId, assetId);
      const { name, content_type: contentType, size } = asset;
      return FileAnswer.of({ name, contentType, size, tag: asset.sha256 ?? asset.id, read }, asked);
    },
  ),
];
