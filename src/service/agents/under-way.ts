import type { FastifyReply } from 'fastify';

/** Bounds what is under way at once: of all locations together, and of each. */
export class UnderWay {
  readonly #most: { all: number; each: number };
  readonly #byLocation = new Map<string, number>();
  #total = 0;

  constructor(most: { all: number; each: number }) {
    this.#most = most;
  }

  of(locationId: string): number {
    return this.#byLocation.get(locationId) ?? 0;
  }

  /** @returns whose bound is reached; without one it counts until its reply has closed */
  enter(locationId: string, reply: FastifyReply): 'each' | 'all' | undefined {
    if (this.of(locationId) >= this.#most.each) return 'each';
    if (this.#total >= this.#most.all) return 'all';
    this.#add(locationId, 1);
    reply.raw.once('close', () => this.#add(locationId, -1));
    return undefined;
  }

  #add(locationId: string, change: 1 | -1): void {
    this.#total += change;
    const count = this.of(locationId) + change;
    if (count === 0) this.#byLocation.delete(locationId);
    else this.#byLocation.set(locationId, count);
  }
}
