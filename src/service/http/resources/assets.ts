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
      type: z.literal('check-result'),
      checkId: z.uuid(),
      checkName: z.string(),
      checkType: CheckTypeName,
      resultId: z.uuid(),
    }),
  })
  .meta({ id: 'Asset' });

const AssetList = z
  .strictObject({
    assets: z.array(Asset),
    truncated: z.boolean(),
    entriesReturned: z.int(),
    entriesTotal: z.int(),
  })
  .meta({ id: 'AssetList' });

const ListQuery = z.strictObject({
  type: z.array(z.enum(ASSET_TYPES)).optional().describe('Any of these'),
  name: z.string().max(200).optional().describe('* stands for any characters, ? for one'),
});

/** Pictures of a visual comparison are pictures. */
const typeOf = (kind: string): AssetType =>
  kind === 'snapshot' ? 'screenshot' : (ASSET_TYPES.find((type) => type === kind) ?? 'file');

const urlOf = (publicUrl: string, checkId: string, resultId: string, assetId: string): string =>
  `${publicUrl}/v1/check-results/${checkId}/${resultId}/assets/${assetId}`;

/** The address of an artifact that a result names. */
export const assetUrl = (publicUrl: string, result: ResultRow, name: string): string =>
  urlOf(publicUrl, result.check_id, result.id, artifactId(result.id, name));

function showAsset(row: ArtifactRow, result: ResultRow, publicUrl: string): z.input<typeof Asset> {
  return {
    type: typeOf(row.kind),
    name: row.name,
    url: urlOf(publicUrl, result.check_id, result.id, row.id),
    contentType: row.content_type,
    size: row.size,
    state: row.state,
    reason: row.reason,
    source: {
      type: 'check-result',
      checkId: result.check_id,
      checkName: result.name,
      checkType: CheckTypeName.parse(result.check_type),
      resultId: result.id,
    },
  };
}

export const assetRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/check-results/{checkId}/{checkResultId}/assets',
      tag,
      summary: 'List the files of a check result: screenshots, traces, videos, reports',
      query: ListQuery,
      status: 200,
      reply: AssetList,
      errors: [404],
    },
    async (caller, { params, query }) => {
      const { result, assets } = await verbs.listAssets(caller, params.checkId, params.checkResultId);
      const { type: types, name: pattern } = query;
      const fitting = assets
        .map((row) => showAsset(row, result, caller.publicUrl))
        .filter(({ type }) => types === undefined || types.includes(type))
        .filter(({ name }) => pattern === undefined || matchesGlob(name, pattern));
      const shown = fitting.slice(0, MAX_ENTRIES);
      return {
        assets: shown,
        truncated: shown.length < fitting.length,
        entriesReturned: shown.length,
        entriesTotal: fitting.length,
      };
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
