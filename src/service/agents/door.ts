import type { Log } from '../../kit/log.ts';
import type { KeyHolder } from '../store/index.ts';
import type { Carrier } from './carrier.ts';
import { Conversation } from './conversation.ts';
import type { LocationKeys } from './keys.ts';
import type { GatewayLimits } from './limits.ts';
import type { Reception } from './reception.ts';
import type { SessionHouse } from './session.ts';

/** What both carriers go through: keys, the bound on newcomers, and a conversation for each. */
export class Door {
  readonly keys: LocationKeys;
  readonly log: Log;
  readonly badKey =
    'The location key is missing, unknown or revoked. It is sent as Authorization: Bearer pl_….';
  readonly house: SessionHouse;
  readonly #reception: Reception;
  readonly #limits: GatewayLimits;
  #entering = 0;
  #leaving = false;

  constructor(keys: LocationKeys, house: SessionHouse, reception: Reception, limits: GatewayLimits) {
    this.keys = keys;
    this.house = house;
    this.log = house.context.log;
    this.#reception = reception;
    this.#limits = limits;
  }

  /** True from a rolling stop on: nobody new is let in. */
  get leaving(): boolean {
    return this.#leaving;
  }

  leave(): void {
    this.#leaving = true;
  }

  /** @returns false when too many are waiting for their welcome; else `entered` must follow once */
  enter(): boolean {
    if (this.#entering >= this.#limits.unwelcomed) return false;
    this.#entering += 1;
    return true;
  }

  entered(): void {
    this.#entering -= 1;
  }

  closed(code: number): void {
    this.house.metrics.closes.inc({ code: String(code) });
  }

  converse(holder: KeyHolder, carrier: Carrier): Conversation {
    return new Conversation(this.house, this.#reception, this.#limits, holder, carrier);
  }
}
