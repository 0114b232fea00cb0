import { z } from 'zod';
import { REGIONS } from '../../../checks/index.ts';
import { openRoute, type Route } from '../route.ts';

const tag = 'reference';

/** Cities of the data centers behind the region codes. */
const CITIES: Readonly<Record<(typeof REGIONS)[number], string>> = {
  'us-east-1': 'N. Virginia',
  'us-east-2': 'Ohio',
  'us-west-1': 'N. California',
  'us-west-2': 'Oregon',
  'ca-central-1': 'Montreal',
  'sa-east-1': 'São Paulo',
  'eu-west-1': 'Ireland',
  'eu-central-1': 'Frankfurt',
  'eu-west-2': 'London',
  'eu-west-3': 'Paris',
  'eu-north-1': 'Stockholm',
  'eu-south-1': 'Milan',
  'me-south-1': 'Bahrain',
  'ap-southeast-1': 'Singapore',
  'ap-northeast-1': 'Tokyo',
  'ap-east-1': 'Hong Kong',
  'ap-southeast-2': 'Sydney',
  'ap-southeast-3': 'Jakarta',
  'ap-northeast-2': 'Seoul',
  'ap-northeast-3': 'Osaka',
  'ap-south-1': 'Mumbai',
  'af-south-1': 'Cape Town',
};

const Location = z.strictObject({ region: z.enum(REGIONS), name: z.string() }).meta({ id: 'Location' });

export const referenceRoutes: readonly Route[] = [
  openRoute(
    {
      method: 'GET',
      path: '/v1/locations',
      tag,
      summary: 'List the data-center locations',
      status: 200,
      reply: z.array(Location),
    },
    async () => REGIONS.map((region) => ({ region, name: CITIES[region] })),
  ),
];
