/** Exit codes of the `vedette` command. Documented in README.md; scripts depend on the numbers. */
export const ExitCode = {
  done: 0,
  checkFailed: 1,
  usage: 2,
  internal: 3,
  keyRefused: 4,
  serviceUnreachable: 5,
  storeRefused: 78,
} as const;
export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];

/**
 * A fault that ends a program with one line for its user. `message` says what is wrong and what to
 * change; it is printed without a stack.
 */
export class FatalError extends Error {
  readonly exitCode: ExitCode;
  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'FatalError';
    this.exitCode = exitCode;
  }
}

/** The message of anything thrown; non-Errors included. */
export function messageOf(thrown: unknown): string {
  if (thrown instanceof AggregateError && thrown.message === '') {
    return thrown.errors.map(messageOf).join('; ');
  }
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** The `code` of a Node system error (`ECONNREFUSED`, …), or undefined. */
export function codeOf(thrown: unknown): string | undefined {
  if (typeof thrown !== 'object' || thrown === null || !('code' in thrown)) return undefined;
  return typeof thrown.code === 'string' ? thrown.code : undefined;
}
