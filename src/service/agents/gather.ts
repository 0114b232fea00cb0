/**
 * Gathers calls that come within `windowMs` into one: 5,000 agents that return at once make some
 * dozens of statements. A call whose `keyOf` is already waiting starts the next group, so that a
 * group never names the same thing twice.
 */
export class Gather<In, Out> {
  readonly #run: (items: readonly In[]) => Promise<readonly Out[]>;
  readonly #keyOf: (item: In) => string;
  readonly #windowMs: number;
  #group: Group<In, Out> | undefined;
  static readonly #MAX = 500;

  /** @param run answers one group, in its order */
  constructor(
    run: (items: readonly In[]) => Promise<readonly Out[]>,
    keyOf: (item: In) => string,
    windowMs: number,
  ) {
    this.#run = run;
    this.#keyOf = keyOf;
    this.#windowMs = windowMs;
  }

  /** @throws whatever the group's run throws */
  async call(item: In): Promise<Out> {
    const key = this.#keyOf(item);
    const group = this.#group === undefined || this.#group.places.has(key) ? this.#open() : this.#group;
    const place = group.items.push(item) - 1;
    group.places.add(key);
    if (group.items.length >= Gather.#MAX) group.start();
    const answers = await group.answers;
    return answers[place]!;
  }

  #open(): Group<In, Out> {
    const { promise, resolve, reject } = Promise.withResolvers<readonly Out[]>();
    let timer: NodeJS.Timeout | undefined = undefined;
    const group: Group<In, Out> = {
      items: [],
      places: new Set(),
      answers: promise,
      start: () => {
        clearTimeout(timer);
        if (this.#group === group) this.#group = undefined;
        this.#run(group.items).then(resolve, reject);
      },
    };
    this.#group?.start();
    this.#group = group;
    timer = setTimeout(group.start, this.#windowMs);
    return group;
  }
}

interface Group<In, Out> {
  items: In[];
  places: Set<string>;
  answers: Promise<readonly Out[]>;
  /** Called once. */
  start: () => void;
}
