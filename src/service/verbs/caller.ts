import type { ServiceContext } from '../ports.ts';

/** Who asks: every verb sees and changes this account's things only. */
export interface Caller extends ServiceContext {
  readonly accountId: string;
}
