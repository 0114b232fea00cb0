import { pino, type Logger } from 'pino';

export type Log = Logger;

/**
 * JSON lines on standard output, or readable lines with `format: 'pretty'`. Events are static text,
 * data are fields; secrets are never passed in (a key appears by its masked form only).
 */
export function createLog(options: {
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  format: 'json' | 'pretty';
  name: string;
}): Log {
  const base = { level: options.level, name: options.name, base: { name: options.name } };
  if (options.format === 'json') {
    return pino({
      ...base,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    });
  }
  return pino({
    ...base,
    transport: { target: 'pino-pretty', options: { ignore: 'pid,hostname', colorize: process.stdout.isTTY } },
  });
}
