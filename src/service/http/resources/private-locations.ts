import { z } from 'zod';
import * as verbs from '../../verbs/index.ts';
import { isOlder, VERSION } from '../../../kit/version.ts';
import type { ConnectedAgent, LocationKeyRow } from '../../store/index.ts';
import { route, type Route } from '../route.ts';
import { instant, instantOrNull, Instant, Moment } from './shapes.ts';

const tag = 'private locations';

const Key = z.strictObject({
  id: z.uuid(),
  rawKey: z.string().optional().describe('Only in the answer that creates the key'),
  maskedKey: z.string(),
  created_at: Instant,
  updated_at: Instant.nullable(),
});
const NewKey = Key.extend({ rawKey: z.string() });

const RunningAgents = z.strictObject({
  version: z.string(),
  isOutdated: z.boolean(),
  count: z.int(),
  agents: z.array(z.strictObject({ id: z.uuid(), lastSeenAt: Instant })),
});

const PrivateLocation = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    slugName: z.string(),
    icon: z.string(),
    proxyUrl: z.string().nullable(),
    keys: z.array(Key),
    lastSeen: Instant.nullable(),
    agentCount: z.int(),
    minAgentVersion: z.string().nullable().describe('Lowest version of a connected agent'),
    runningAgents: z.array(RunningAgents).optional().describe('Only with versions=true'),
    created_at: Instant,
    updated_at: Instant.nullable(),
  })
  .meta({ id: 'PrivateLocation' });

const LocationMetrics = z
  .strictObject({
    timestamps: z.array(Instant),
    queueSize: z.array(z.int()).describe('Runs that were due and waited for an agent'),
    oldestScheduledCheckRun: z
      .array(z.number())
      .describe('How long the oldest of them had been due, in seconds; 0 when none waited'),
  })
  .meta({ id: 'PrivateLocationMetrics' });

function showKey(row: LocationKeyRow): z.input<typeof Key> {
  return {
    id: row.id,
    maskedKey: row.masked,
    created_at: instant(row.created_at),
    updated_at: instantOrNull(row.updated_at),
  };
}

const showNewKey = ({ row, rawKey }: verbs.NewKey): z.input<typeof NewKey> => ({ ...showKey(row), rawKey });

/** `proxyUrl` is shown whole, password included: its reader owns it and sends it back on an update. */
function showLocation({ row, keys, agents }: verbs.Location): z.input<typeof PrivateLocation> {
  const seen = [row.last_seen, ...agents.map((agent) => agent.lastSeen)].filter((each) => each !== null);
  const lastSeen = seen.length === 0 ? null : new Date(Math.max(...seen.map(Number)));
  return {
    id: row.id,
    name: row.name,
    slugName: row.slug,
    icon: row.icon,
    proxyUrl: row.proxy_url,
    keys: keys.map(showKey),
    lastSeen: instantOrNull(lastSeen),
    agentCount: agents.length,
    minAgentVersion: versionsOf(agents)[0] ?? null,
    created_at: instant(row.created_at),
    updated_at: instantOrNull(row.updated_at),
  };
}

/** Oldest first. */
function versionsOf(agents: readonly ConnectedAgent[]): string[] {
  const versions = new Set(agents.map((agent) => agent.version));
  return [...versions].toSorted((a, b) => (isOlder(a, b) ? -1 : 1));
}

function showRunning(agents: readonly ConnectedAgent[]): z.input<typeof RunningAgents>[] {
  return versionsOf(agents).map((version) => {
    const same = agents.filter((agent) => agent.version === version);
    return {
      version,
      isOutdated: isOlder(version, VERSION),
      count: same.length,
      agents: same.map(({ id, lastSeen }) => ({ id, lastSeenAt: instant(lastSeen) })),
    };
  });
}

export const privateLocationRoutes: readonly Route[] = [
  route(
    {
      method: 'GET',
      path: '/v1/private-locations',
      tag,
      summary: 'List private locations',
      query: z.strictObject({ versions: z.boolean().default(false) }),
      status: 200,
      reply: z.array(PrivateLocation),
    },
    async (caller, { query }) => {
      const found = await verbs.listLocations(caller);
      return found.map((each) =>
        query.versions
          ? { ...showLocation(each), runningAgents: showRunning(each.agents) }
          : showLocation(each),
      );
    },
  ),
  route(
    {
      method: 'POST',
      path: '/v1/private-locations',
      tag,
      summary: 'Create a private location with its first key',
      body: verbs.LocationInput,
      status: 201,
      reply: PrivateLocation,
      errors: [409],
    },
    async (caller, { body }) => {
      const { location, key } = await verbs.createLocation(caller, body);
      return { ...showLocation(location), keys: [showNewKey(key)] };
    },
  ),
  route(
    {
      method: 'GET',
      path: '/v1/private-locations/{id}',
      tag,
      summary: 'Read a private location',
      status: 200,
      reply: PrivateLocation,
      errors: [404],
    },
    async (caller, { params }) => showLocation(await verbs.getLocation(caller, params.id)),
  ),
  route(
    {
      method: 'PUT',
      path: '/v1/private-locations/{id}',
      tag,
      summary: 'Update a private location; absent fields keep their value',
      body: verbs.LocationChange,
      status: 200,
      reply: PrivateLocation,
      errors: [404, 409],
    },
    async (caller, { params, body }) => showLocation(await verbs.updateLocation(caller, params.id, body)),
  ),
  route(
    {
      method: 'DELETE',
      path: '/v1/private-locations/{id}',
      tag,
      summary: 'Delete a private location that no check uses',
      status: 204,
      errors: [404, 409],
    },
    async (caller, { params }) => verbs.deleteLocation(caller, params.id),
  ),
  route(
    {
      method: 'GET',
      path: '/v1/private-locations/{id}/metrics',
      tag,
      summary: 'Read how long the queue of a private location was, by the minute, and how long it is now',
      query: z.strictObject({
        from: Moment,
        to: Moment.describe('Less than 15 days after `from`; a calendar date is included'),
      }),
      status: 200,
      reply: LocationMetrics,
      errors: [404],
    },
    async (caller, { params, query }) => {
      const { from, to } = query;
      const window = { from: from.at, to: to.at, lastsMs: to.lastsMs };
      const samples = await verbs.locationLoad(caller, params.id, window);
      return {
        timestamps: samples.map(({ at }) => instant(at)),
        queueSize: samples.map(({ queued }) => queued),
        oldestScheduledCheckRun: samples.map(({ oldestSeconds }) => Math.round(oldestSeconds)),
      };
    },
  ),
  route(
    {
      method: 'POST',
      path: '/v1/private-locations/{id}/keys',
      tag,
      summary: 'Create a second key; the raw key is shown this once',
      status: 201,
      reply: NewKey,
      errors: [404, 409],
    },
    async (caller, { params }) => showNewKey(await verbs.createKey(caller, params.id)),
  ),
  route(
    {
      method: 'DELETE',
      path: '/v1/private-locations/{id}/keys/{keyId}',
      tag,
      summary: 'Revoke a key; agents that use it are cut off',
      status: 204,
      errors: [404],
    },
    async (caller, { params }) => verbs.deleteKey(caller, params.id, params.keyId),
  ),
];
