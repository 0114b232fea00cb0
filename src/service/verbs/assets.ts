import { isUuid } from '../../kit/ids.ts';
import { artifacts, type ArtifactRow, type ResultRow } from '../store/index.ts';
import type { Caller } from './caller.ts';
import { getResult } from './check-results.ts';
import { notFound, Refusal } from './refusal.ts';

export interface ResultAssets {
  result: ResultRow;
  /** In the order of the manifest. */
  assets: ArtifactRow[];
}

export async function listAssets(caller: Caller, checkId: string, resultId: string): Promise<ResultAssets> {
  const result = await getResult(caller, checkId, resultId);
  return { result, assets: await artifacts.artifactsOf(caller.store.db, result.id) };
}

/** The bytes of an asset that is here. */
export interface AssetBytes {
  asset: ArtifactRow;
  read: (start: number, end: number) => AsyncIterable<Buffer>;
}

/** @throws Refusal `conflict` while it is on its way, `notFound` when it never will be here */
export async function openAsset(
  caller: Caller,
  checkId: string,
  resultId: string,
  assetId: string,
): Promise<AssetBytes> {
  return openAssetOf(caller, (await listAssets(caller, checkId, resultId)).assets, assetId);
}

/** As openAsset, among the assets of a result. */
export async function openAssetOf(
  caller: Caller,
  assets: readonly ArtifactRow[],
  assetId: string,
): Promise<AssetBytes> {
  const asset = isUuid(assetId) ? assets.find(({ id }) => id === assetId.toLowerCase()) : undefined;
  if (asset === undefined) throw notFound('asset', assetId);
  const shown = `asset ${JSON.stringify(asset.name)}`;
  if (asset.state === 'pending') {
    throw new Refusal('conflict', `${shown} is still on its way from the agent; ask again`);
  }
  if (asset.state === 'refused') {
    throw new Refusal('notFound', `${shown} was not sent: ${asset.reason ?? 'the agent gave no reason'}`);
  }
  const blob = { id: asset.id, day: asset.scheduled_at, size: asset.size };
  if (!(await caller.blobs.has(blob))) {
    throw new Refusal('notFound', `${shown} is not in the blob store any more`);
  }
  return { asset, read: (start, end) => caller.blobs.read(blob, start, end) };
}
