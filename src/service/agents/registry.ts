import type { AgentSession } from './session.ts';

/** The sessions that this process carries, found by what wake-ups and requests name. */
export class Sessions {
  readonly #byAgent = new Map<string, AgentSession>();
  readonly #byKey = new Groups();
  readonly #byLocation = new Groups();

  get count(): number {
    return this.#byAgent.size;
  }

  ofAgent(agentId: string): AgentSession | undefined {
    return this.#byAgent.get(agentId);
  }

  withKey(keyId: string): readonly AgentSession[] {
    return this.#byKey.of(keyId);
  }

  /** @param location as in the topic of its wake-ups: `<accountId>/<slug>` */
  at(location: string): readonly AgentSession[] {
    return this.#byLocation.of(location);
  }

  countAt(location: string): number {
    return this.#byLocation.count(location);
  }

  locations(): string[] {
    return this.#byLocation.names();
  }

  all(): AgentSession[] {
    return [...this.#byAgent.values()];
  }

  /** The agent's older session must have been removed. */
  add(session: AgentSession): void {
    this.#byAgent.set(session.agentId, session);
    this.#byKey.add(session.holder.keyId, session);
    this.#byLocation.add(session.place, session);
  }

  remove(session: AgentSession): void {
    if (this.#byAgent.get(session.agentId) === session) this.#byAgent.delete(session.agentId);
    this.#byKey.remove(session.holder.keyId, session);
    this.#byLocation.remove(session.place, session);
  }
}

class Groups {
  readonly #members = new Map<string, Set<AgentSession>>();

  of(name: string): AgentSession[] {
    return [...(this.#members.get(name) ?? [])];
  }

  count(name: string): number {
    return this.#members.get(name)?.size ?? 0;
  }

  names(): string[] {
    return [...this.#members.keys()];
  }

  add(name: string, session: AgentSession): void {
    const group = this.#members.get(name);
    if (group === undefined) this.#members.set(name, new Set([session]));
    else group.add(session);
  }

  remove(name: string, session: AgentSession): void {
    const group = this.#members.get(name);
    if (group?.delete(session) && group.size === 0) this.#members.delete(name);
  }
}
