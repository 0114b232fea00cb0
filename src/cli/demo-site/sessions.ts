import { newId } from '../../kit/ids.ts';
import { Recent } from './recent.ts';
import type { Visit } from './visit.ts';

export interface Session {
  id: string;
  /** Null until somebody has logged in. */
  user: string | null;
  /** Count of each product. */
  cart: Map<string, number>;
}

const COOKIE = 'session';

/** Who is who, by a cookie that pages cannot read. */
export class Sessions {
  readonly #known = new Recent<Session>(1000);

  /** The visitor's own; a new one, which is not kept yet, for somebody new. */
  of({ headers }: Visit): Session {
    const id = new RegExp(`(?:^|;\\s*)${COOKIE}=([\\w-]+)`).exec(headers.cookie ?? '')?.[1];
    return this.#known.get(id ?? '') ?? { id: newId(), user: null, cart: new Map() };
  }

  /** @returns the headers that make the visitor come back as this session */
  keep(session: Session): Record<string, string> {
    this.#known.set(session.id, session);
    return { 'set-cookie': `${COOKIE}=${session.id}; Path=/; HttpOnly; SameSite=Lax` };
  }

  /** Logs in under a new id, so that nobody can prepare a session for somebody else. */
  renew({ id, cart }: Session, user: string): Record<string, string> {
    this.#known.delete(id);
    return this.keep({ id: newId(), user, cart });
  }

  end({ id }: Session): Record<string, string> {
    this.#known.delete(id);
    return { 'set-cookie': `${COOKIE}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0` };
  }
}
