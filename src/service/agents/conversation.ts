import { messageOf } from '../../kit/errors.ts';
import { CloseCode } from '../../contract/index.ts';
import type { KeyHolder } from '../store/index.ts';
import { encode, type Carrier } from './carrier.ts';
import { readFrame, readFrameText, type Frame } from './frame.ts';
import type { GatewayLimits } from './limits.ts';
import type { Reception } from './reception.ts';
import type { AgentSession, SessionHouse } from './session.ts';

/**
 * What is said on one carrier: messages one after the other in the order they came, the hello first.
 * Nothing that an agent sends makes it throw.
 */
export class Conversation {
  readonly #house: SessionHouse;
  readonly #reception: Reception;
  readonly #limits: GatewayLimits;
  readonly #holder: KeyHolder;
  readonly #carrier: Carrier;
  #session: AgentSession | undefined;
  #tail: Promise<void> = Promise.resolve();
  #waiting = 0;
  #bad = 0;
  #over = false;

  constructor(
    house: SessionHouse,
    reception: Reception,
    limits: GatewayLimits,
    holder: KeyHolder,
    carrier: Carrier,
  ) {
    this.#house = house;
    this.#reception = reception;
    this.#limits = limits;
    this.#holder = holder;
    this.#carrier = carrier;
  }

  /** Undefined before the welcome. */
  get session(): AgentSession | undefined {
    return this.#session;
  }

  /** Messages that wait to be handled. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Goes on with a session that another replica welcomed; false when it has been replaced since. */
  adopt(session: AgentSession): boolean {
    if (!this.#reception.enter(session)) return false;
    this.#session = session;
    return true;
  }

  /** Settles when the message has been handled and its answers were given to the carrier. */
  async receive(message: unknown): Promise<void> {
    return this.#inTurn(readFrame(message));
  }

  async receiveText(text: string): Promise<void> {
    return this.#inTurn(readFrameText(text));
  }

  /** For what is not even text. */
  async receiveGarbage(detail: string): Promise<void> {
    return this.#inTurn({ kind: 'bad', detail, id: undefined });
  }

  /**
   * The carrier is gone. What came before is still handled: an agent that is told to stop at once gives
   * its runs back and closes without waiting for an answer.
   *
   * @param elsewhere true when another replica may go on with the session
   */
  end(elsewhere = false): void {
    this.#tail = this.#tail.then(() => {
      this.#over = true;
      this.#session?.end(elsewhere);
    });
  }

  async #inTurn(frame: Frame): Promise<void> {
    this.#waiting += 1;
    this.#tail = this.#tail.then(async () => this.#handle(frame));
    return this.#tail;
  }

  async #handle(frame: Frame): Promise<void> {
    this.#waiting -= 1;
    if (this.#over || this.#session?.ended) return;
    try {
      await this.#dispatch(frame);
    } catch (error) {
      this.#house.context.log.warn({ error: messageOf(error), kind: frame.kind }, 'message not handled');
      if (this.#session === undefined) {
        this.#carrier.close(CloseCode.goingAway, 'the service cannot welcome agents now');
      }
    }
  }

  async #dispatch(frame: Frame): Promise<void> {
    const { metrics } = this.#house;
    if (frame.kind === 'bad') return this.#refuse(frame.detail, frame.id);
    if (frame.kind === 'unknown') {
      metrics.messages.inc({ type: 'unknown' });
      return;
    }
    const { message } = frame;
    metrics.messages.inc({ type: message.t });
    if (message.t === 'hello') return this.#hello(message);
    if (this.#session !== undefined) return this.#session.handle(message);
    this.#carrier.send(encode('refused', { why: 'not_welcome', detail: 'hello comes first' }, message.id));
    this.#carrier.close(CloseCode.badMessage, 'hello comes first');
  }

  async #hello(hello: Parameters<Reception['welcome']>[0]): Promise<void> {
    const present = this.#session;
    this.#session = await this.#reception.welcome(hello, this.#holder, this.#carrier, present);
    present?.end();
    // The carrier was lost while the store was asked.
    if (this.#over) this.#session?.end();
  }

  #refuse(detail: string, id: string | undefined): void {
    this.#house.metrics.badMessages.inc();
    this.#carrier.send(encode('refused', { why: 'bad_message', detail }, id));
    this.#bad += 1;
    if (this.#bad < this.#limits.badMessages) return;
    const reason = `${this.#bad} messages could not be read`;
    if (this.#session === undefined) this.#carrier.close(CloseCode.badMessage, reason);
    else this.#session.close(CloseCode.badMessage, reason);
  }
}
