import { pino, type Logger } from 'pino';
import { setting, word } from './settings.ts';

export type Log = Logger;

/** Settings of the log, the same for every program. */
export const logSettings = {
  logLevel: setting(
    'LOG_LEVEL',
    word('debug', 'log', 'info', 'warn', 'error', 'silent')
      .default('info')
      .transform((level) => (level === 'log' ? 'info' : level)),
    { default: 'info', meaning: 'debug, log, info, warn, error or silent; log is the same as info.' },
  ),
  logFormat: setting('LOG_FORMAT', word('json', 'pretty').default('json'), {
    default: 'json',
    meaning: 'json for machines, pretty for people.',
  }),
};

/**
 * JSON lines on standard output, or readable lines with `format: 'pretty'`. Events are static text,
 * data are fields; secrets are never passed in (a key appears by its masked form only), and `scrub` takes out
 * what got in nevertheless.
 */
export function createLog(options: {
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent';
  format: 'json' | 'pretty';
  name: string;
  /** Sees each whole line last; for secrets that the text of an error may hold. */
  scrub?: (line: string) => string;
}): Log {
  const { level, name, scrub } = options;
  const hooks = scrub === undefined ? {} : { hooks: { streamWrite: scrub } };
  const base = { level, name, base: { name }, ...hooks };
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
