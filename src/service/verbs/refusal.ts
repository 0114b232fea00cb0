/** Why a verb did not do what was asked. http/errors.ts has the status of each. */
export type RefusalCode =
  | 'invalid'
  | 'badKey'
  | 'forbidden'
  | 'notFound'
  | 'notFinal'
  | 'conflict'
  | 'tooLarge'
  | 'tooMany'
  | 'unsupportedMedia';

/** The caller's mistake or bad luck, never ours. `message` is shown as it is. */
export class Refusal extends Error {
  readonly code: RefusalCode;
  /** A word that programs look for. */
  readonly errorCode: string | undefined;
  constructor(code: RefusalCode, message: string, options?: ErrorOptions & { errorCode?: string }) {
    super(message, options);
    this.name = 'Refusal';
    this.code = code;
    this.errorCode = options?.errorCode;
  }
}

export const notFound = (what: string, id: string): Refusal =>
  new Refusal('notFound', `${what} ${JSON.stringify(id.slice(0, 64))} does not exist`);
