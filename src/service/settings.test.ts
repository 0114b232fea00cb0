import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMING } from '../contract/index.ts';
import { readSettings } from '../kit/settings.ts';
import { SERVICE_PREFIXES, serviceSettings, timingOf } from './settings.ts';

describe('the settings of the service', () => {
  test('have defaults for everything', () => {
    expect(readSettings(serviceSettings, {}).values).toMatchObject({
      databaseUrl: undefined,
      dataDir: '.vedette',
      host: '0.0.0.0',
      port: 3000,
      publicUrl: undefined,
      rawRetentionDays: 30,
      leaseSeconds: 300,
      queueExpirySeconds: 360,
      rateLimitPerMinute: 0,
      logLevel: 'info',
      logFormat: 'json',
    });
  });

  test('warn about names that only look like theirs', () => {
    const { warnings } = readSettings(serviceSettings, { SERVICE_PROT: '1' }, SERVICE_PREFIXES);
    expect(warnings).toEqual(['SERVICE_PROT is not a setting; the nearest is SERVICE_PORT']);
  });

  test.each([
    ['DATABASE_URL', 'mysql://x', 'postgres://'],
    ['SERVICE_PORT', '70000', '0 to 65535'],
    ['PUBLIC_URL', 'monitor.example', 'http:// or https://'],
    ['RETENTION_RAW_DAYS', '0', '1 to 3650'],
    ['LEASE_SECONDS', '2', '3 to 3600'],
    ['QUEUE_EXPIRY_SECONDS', '-1', '1 to 86400'],
    ['BOOTSTRAP_ACCOUNT_ID', 'me', 'a UUID'],
    ['BOOTSTRAP_API_KEY', 'short', '16 to 200'],
    ['LOG_LEVEL', 'loud', 'warn, error'],
  ])('%s=%s is refused with what is allowed', (name, value, allowed) => {
    expect(() => readSettings(serviceSettings, { [name]: value })).toThrow(allowed);
  });

  test('never show a secret in a refusal', () => {
    const read = () => readSettings(serviceSettings, { BOOTSTRAP_API_KEY: 'hunter2' });
    expect(read).toThrow(/^BOOTSTRAP_API_KEY: /);
    expect(read).not.toThrow('hunter2');
  });
});

describe('the timing of leases', () => {
  test('is the default one at 300 s', () => {
    expect(timingOf(300, 360)).toEqual(DEFAULT_TIMING);
  });

  test('leaves three renewals before an agent is suspect, and time to accept', () => {
    for (const seconds of [3, 10, 60, 3600]) {
      const { leaseMs, renewEveryMs, acceptMs, suspectMs } = timingOf(seconds, 10);
      expect(suspectMs).toBeGreaterThanOrEqual(3 * renewEveryMs);
      expect(suspectMs).toBeLessThan(leaseMs);
      expect(acceptMs).toBeGreaterThanOrEqual(1000);
      expect(acceptMs).toBeLessThan(leaseMs);
    }
  });
});
