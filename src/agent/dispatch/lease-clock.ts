import { monoMs, wallMs } from '../../kit/clock.ts';

/** Wall and monotonic clock may drift apart by this much between two looks before it means something. */
const JUMP_MS = 30_000;

/**
 * The clock that leases are counted on. Monotonic, because a wall clock that is set must not end runs.
 * Some systems stop the monotonic clock while they sleep, so a jump of the wall clock against it may be
 * time that passed: `looked` reports it, and `pass` counts it once the service did not confirm our leases.
 */
export class LeaseClock {
  readonly #mono: () => number;
  readonly #wall: () => number;
  #passedMs = 0;
  #lastWall: number;
  #lastMono: number;

  constructor(mono: () => number = monoMs, wall: () => number = wallMs) {
    this.#mono = mono;
    this.#wall = wall;
    this.#lastWall = wall();
    this.#lastMono = mono();
  }

  /** ms. */
  now(): number {
    return this.#mono() + this.#passedMs;
  }

  /** @returns ms by which the wall clock ran ahead since the last look, or 0 when that is ordinary drift */
  look(): number {
    const wall = this.#wall();
    const mono = this.#mono();
    const ahead = wall - this.#lastWall - (mono - this.#lastMono);
    this.#lastWall = wall;
    this.#lastMono = mono;
    return ahead > JUMP_MS ? ahead : 0;
  }

  pass(ms: number): void {
    this.#passedMs += ms;
  }
}
