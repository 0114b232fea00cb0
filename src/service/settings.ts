import { z } from 'zod';
import { DEFAULT_TIMING, type Timing } from '../contract/index.ts';
import { isUuid } from '../kit/ids.ts';
import { logSettings } from '../kit/log.ts';
import { httpUrl, integer, setting, switchValue, type ValuesOf } from '../kit/settings.ts';

/** Names with this prefix that no setting claims are warned about. */
export const SERVICE_PREFIXES = ['SERVICE_'] as const;

/** The settings of `vedette service`. README.md carries their table. */
export const serviceSettings = {
  databaseUrl: setting(
    'DATABASE_URL',
    z
      .string()
      .regex(/^postgres(ql)?:\/\//, 'an address that starts with postgres:// is allowed')
      .optional(),
    {
      default: 'embedded database',
      meaning: 'PostgreSQL 15 or newer; without it the service keeps its data in `SERVICE_DATA_DIR`.',
      secret: true,
    },
  ),
  dataDir: setting('SERVICE_DATA_DIR', z.string().default('.vedette'), {
    default: '`.vedette`',
    meaning: 'Folder of the embedded database and, without `BLOB_STORE`, of artifacts.',
  }),
  blobStore: setting('BLOB_STORE', z.string().min(1).optional(), {
    default: '`file:` and `blobs` in `SERVICE_DATA_DIR`',
    meaning:
      'Where artifacts (screenshots, traces, videos) are kept, shared by all replicas: `file:DIR`, or `s3://BUCKET/PREFIX` in an S3-compatible store.',
  }),
  s3Endpoint: setting('S3_ENDPOINT', httpUrl().optional(), {
    default: 'Amazon S3',
    meaning: 'Address of the S3-compatible store.',
  }),
  s3Region: setting(
    'S3_REGION',
    z
      .string()
      .regex(/^[a-z0-9-]{1,40}$/, 'a region such as eu-central-1 is allowed')
      .default('us-east-1'),
    { default: 'us-east-1', meaning: 'Region of the bucket; stores other than Amazon S3 seldom mind.' },
  ),
  s3AccessKeyId: setting('S3_ACCESS_KEY_ID', z.string().min(1).optional(), {
    meaning: 'Access key that may list, read, write and delete objects of the bucket.',
  }),
  s3SecretAccessKey: setting('S3_SECRET_ACCESS_KEY', z.string().min(1).optional(), {
    meaning: 'Secret of the access key.',
    secret: true,
  }),
  s3ForcePathStyle: setting('S3_FORCE_PATH_STYLE', switchValue().optional(), {
    default: 'on with `S3_ENDPOINT`',
    meaning: 'on: the bucket stands in the path of addresses; off: before the host name.',
  }),
  port: setting('SERVICE_PORT', integer(0, 65_535).default(3000), {
    default: '3000',
    meaning: 'Port of the interface and of the agents; 0 takes any free one.',
  }),
  host: setting('SERVICE_HOST', z.string().default('0.0.0.0'), {
    default: '`0.0.0.0`',
    meaning: 'Address to listen on. `vedette up` listens on 127.0.0.1.',
  }),
  publicUrl: setting('PUBLIC_URL', httpUrl().optional(), {
    default: 'the address it listens on',
    meaning: 'Address under which clients reach the service; used for links in answers.',
  }),
  rawRetentionDays: setting('RETENTION_RAW_DAYS', integer(1, 3650).default(30), {
    default: '30',
    meaning: 'Days that raw check results are kept.',
  }),
  leaseSeconds: setting('LEASE_SECONDS', integer(3, 3600).default(300), {
    default: '300',
    meaning: 'Silence of an agent, in seconds, after which its runs are given to another one.',
  }),
  queueExpirySeconds: setting('QUEUE_EXPIRY_SECONDS', integer(1, 86_400).default(360), {
    default: '360',
    meaning: 'Seconds that a run waits for an agent before it ends as TIMED_OUT.',
  }),
  drainSeconds: setting('SERVICE_DRAIN_SECONDS', integer(0, 600).default(0), {
    default: '0',
    meaning:
      'At a stop, seconds between readiness 503 and the end of service: what a load balancer takes to look away.',
  }),
  rateLimitPerMinute: setting('RATE_LIMIT_PER_MINUTE', integer(0, 1_000_000).default(0), {
    default: 'off',
    meaning: 'Requests that one API key may make in a minute; 0 sets no limit.',
  }),
  minAgentVersion: setting(
    'MIN_AGENT_VERSION',
    z
      .string()
      .regex(/^\d+\.\d+\.\d+$/, 'a version such as 1.2.3 is allowed')
      .optional(),
    {
      default: 'any',
      meaning: 'Agents of older versions get no work: they end what they have and are refused.',
    },
  ),
  metricsToken: setting(
    'METRICS_TOKEN',
    z
      .string()
      .regex(/^[\x21-\x7e]{8,200}$/, '8 to 200 printable characters without spaces are allowed')
      .optional(),
    {
      default: 'open',
      meaning:
        'Bearer token that `/metrics` asks for; without it everybody who reaches the port may read them.',
      secret: true,
    },
  ),
  bootstrapAccountId: setting(
    'BOOTSTRAP_ACCOUNT_ID',
    z
      .string()
      .refine(isUuid, 'a UUID is allowed')
      .transform((id) => id.toLowerCase())
      .optional(),
    { default: 'a new UUID', meaning: 'Identifier of the account that the first start creates.' },
  ),
  bootstrapApiKey: setting(
    'BOOTSTRAP_API_KEY',
    z
      .string()
      .regex(/^[\x21-\x7e]{16,200}$/, '16 to 200 printable characters without spaces are allowed')
      .optional(),
    {
      default: 'a new key, printed once',
      meaning: 'API key that the first start creates, for unattended set-ups.',
      secret: true,
    },
  ),
  ...logSettings,
};
export type ServiceSettings = ValuesOf<typeof serviceSettings>;

/**
 * Timing of leases from their length: three renewals fit into the silence after which an agent counts
 * as suspect, as with the defaults (20, 60 and 300 s). Short leases are for tests; below 1 s an offer
 * could lapse on its way.
 */
export function timingOf(leaseSeconds: number, queueExpirySeconds: number): Timing {
  const leaseMs = leaseSeconds * 1000;
  return {
    leaseMs,
    renewEveryMs: Math.floor(leaseMs / 15),
    acceptMs: Math.min(10_000, Math.max(1000, Math.round(leaseMs / 30))),
    suspectMs: Math.round(leaseMs / 5),
    settleMs: Math.round(leaseMs / 5),
    queueExpiryMs: queueExpirySeconds * 1000,
    maxDeliveries: DEFAULT_TIMING.maxDeliveries,
  };
}
