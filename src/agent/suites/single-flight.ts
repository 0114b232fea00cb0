/** The same work is done once at a time: whoever asks for it meanwhile gets what the first one gets. */
export class SingleFlight {
  readonly #underWay = new Map<string, Promise<unknown>>();

  async once<T>(key: string, work: () => Promise<T>): Promise<T> {
    const known = this.#underWay.get(key);
    if (known !== undefined) return known as Promise<T>;
    const begun = work().finally(() => this.#underWay.delete(key));
    this.#underWay.set(key, begun);
    return begun;
  }
}
