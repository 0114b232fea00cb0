import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findCheckType } from '../../src/checks/index.ts';
import { messageOf } from '../../src/kit/errors.ts';
import { openBlobs } from '../../src/service/blobs/index.ts';
import * as verbs from '../../src/service/verbs/index.ts';
import { engines, silentLog } from '../support/databases.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { World } from './fixture.ts';

describe.each(engines())('what checks share on $name', (engine) => {
  let world: World;
  let caller: verbs.Caller;
  const folder = temporaryFolder();
  beforeAll(async () => {
    await engine.start();
    world = await World.on(await engine.fresh());
    const { store, queue, timing, accountId } = world;
    const blobs = await openBlobs(`file:${folder.path}`);
    caller = { store, queue, timing, accountId, blobs, log: silentLog, publicUrl: '' };
  });
  afterAll(async () => {
    await world.close();
    await engine.stop();
    folder[Symbol.dispose]();
  });

  const checkIn = async (groupId: number): Promise<string> => {
    const request = { url: 'http://a.test/' };
    const body = { name: 'a check', locations: ['eu-west-1'], groupId, request };
    return (await verbs.createCheck(caller, body, findCheckType('URL'))).id;
  };

  test('two snippets that are given one name at the same time do not both have it', async () => {
    const snippets = await Promise.all(
      ['one', 'two', 'three'].map(async (name) => verbs.createSnippet(caller, { name, script: '' })),
    );
    for (let round = 0; round < 5; round++) {
      const name = `name ${round}`;
      const renamed = await Promise.allSettled(
        snippets.map(async ({ id }) => verbs.updateSnippet(caller, String(id), { name })),
      );
      const refused = renamed.flatMap((each) => (each.status === 'rejected' ? [messageOf(each.reason)] : []));
      const message = `name: "${name}" is taken by another snippet`;
      expect(refused).toEqual([message, message]);
    }
  });

  test('a group and its checks change at the same time, and agree in the end', async () => {
    const { id: groupId } = await verbs.createGroup(caller, { name: 'a group' });
    const ids = await Promise.all(Array.from({ length: 8 }, async () => checkIn(groupId)));
    for (const region of ['us-east-1', 'us-east-2', 'us-west-1', 'us-west-2']) {
      await Promise.all([
        ...ids.slice(0, 4).map(async (id) => verbs.updateCheck(caller, id, { name: region, groupId })),
        verbs.updateGroup(caller, String(groupId), { locations: [region] }),
        ...ids.slice(4).map(async (id) => verbs.updateCheck(caller, id, { name: region })),
        checkIn(groupId).then((id) => ids.push(id)),
      ]);
      for (const id of ids) {
        expect(await verbs.getCheck(caller, id)).toMatchObject({
          group_id: groupId,
          run_locations: [region],
        });
      }
    }
  });
});
