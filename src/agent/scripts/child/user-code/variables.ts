/** Values of variables with this prefix are never shown, also when a script makes them up. */
const SECRET_PREFIX = 'SERVICE_SECRET_';

/**
 * What scripts see as process.env: the variables of the run and nothing else, values always text. Node
 * itself keeps reading the true environment: where temporary files go, for one.
 */
export class Variables {
  readonly #onSecret: (value: string) => void;
  readonly #values: Record<string, string> = {};
  readonly #announced = new Set<string>();
  readonly #hidden = new Map<string | symbol, string>();

  constructor(onSecret: (value: string) => void) {
    this.#onSecret = onSecret;
  }

  install(): void {
    const set = (key: string | symbol, value: unknown): boolean => {
      if (typeof key === 'symbol') throw new TypeError('the name of a variable must be text');
      this.#set(key, String(value));
      return true;
    };
    process.env = new Proxy(this.#values, {
      get: (values, key) => Reflect.get(values, key) ?? this.#hidden.get(key),
      set: (_, key, value) => set(key, value),
      defineProperty: (_, key, { value }) => set(key, value),
    });
  }

  /** A switch that a package looks for, unless the run has a variable of that name. It is not among the variables. */
  hide(key: string, value: string): void {
    this.#hidden.set(key, value);
  }

  replaceAll(values: Readonly<Record<string, string>>): void {
    for (const key of Object.keys(this.#values)) delete this.#values[key];
    for (const [key, value] of Object.entries(values)) this.#set(key, value);
  }

  all(): Record<string, string> {
    return { ...this.#values };
  }

  /** A secret is told before anybody can print it. */
  #set(key: string, value: string): void {
    if (key.startsWith(SECRET_PREFIX) && value !== '' && !this.#announced.has(value)) {
      this.#announced.add(value);
      this.#onSecret(value);
    }
    Object.defineProperty(this.#values, key, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
}
