import { expect, inject, test } from 'vitest';
import { describeUnless } from '../support/programs.ts';
import { ACCOUNT_ID, API_KEY, makeLocation, restOf } from '../support/rest.ts';
import { newVolume, startContainer, type Container } from './container.ts';

describeUnless(inject('noImages') ?? undefined, 'the service in a container without any right', () => {
  const { service } = inject('images')!;
  const start = (volume: string, user: string): Promise<Container> =>
    startContainer({
      image: service.image,
      port: 3000,
      env: { BOOTSTRAP_ACCOUNT_ID: ACCOUNT_ID, BOOTSTRAP_API_KEY: API_KEY },
      user,
      volume,
    });

  test.each(['1000', '12345678'])('as user %s it keeps its data on a volume', async (user) => {
    using volume = newVolume();
    {
      await using first = await start(volume.name, user);
      console.log(`vedette: ${service.image} was ready after ${Math.round(first.readyMs)} ms`);
      await makeLocation(restOf(first.url), 'here');
      expect(await first.stop(30_000)).toBe(0);
    }
    await using second = await start(volume.name, user);
    const locations = await restOf(second.url).call<object>('GET', '/v1/private-locations');
    expect(locations).toMatchObject([{ slugName: 'here' }]);
    expect(await second.get('/metrics')).toMatchObject({ status: 200 });
  });
});
