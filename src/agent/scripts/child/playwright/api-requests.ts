import type { ApiRequestEvent, ApiResponseEvent } from './playwright-types.ts';

/** One request that a script made by itself, each hop of a redirect by itself. ms and epoch ms. */
export interface RequestNode {
  method: string;
  url: string;
  startTime: number;
  /** Null when no answer came. */
  status: number | null;
  duration: number | null;
  /** Durations as far as they are known: a connection that is used again has none of its own. */
  timings: Partial<Record<'dns' | 'connect' | 'ssl' | 'send' | 'wait' | 'receive' | 'total', number>>;
}

const MAX_REQUESTS = 500;
const MAX_URL_CHARS = 2_048;

/** The requests of Playwright's `request` fixture and of request contexts. */
export class ApiRequests {
  readonly nodes: RequestNode[] = [];
  readonly #open = new WeakMap<object, RequestNode>();
  readonly #onChange: () => void;

  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  begin(event: ApiRequestEvent): void {
    if (this.nodes.length >= MAX_REQUESTS) return;
    const node: RequestNode = {
      method: event.method,
      url: String(event.url).slice(0, MAX_URL_CHARS),
      startTime: Date.now(),
      status: null,
      duration: null,
      timings: {},
    };
    this.nodes.push(node);
    this.#open.set(event, node);
    this.#onChange();
  }

  end({ requestEvent, statusCode, timings }: ApiResponseEvent): void {
    const node = this.#open.get(requestEvent);
    if (node === undefined) return;
    node.status = statusCode;
    node.timings = phasesOf(timings);
    node.duration = node.timings.total ?? null;
    this.#onChange();
  }
}

/** Playwright counts `connect` and `send` from the start, with what was before them. -1 is not there. */
function phasesOf({
  dns,
  connect,
  ssl,
  send,
  wait,
  receive,
}: ApiResponseEvent['timings']): RequestNode['timings'] {
  const before = Math.max(connect, 0);
  const phases = {
    ...(dns >= 0 ? { dns } : {}),
    ...(connect >= 0 ? { connect: connect - Math.max(dns, 0) - Math.max(ssl, 0) } : {}),
    ...(ssl >= 0 ? { ssl } : {}),
    send: send - before,
    wait,
    receive,
    total: send + wait + receive,
  };
  return Object.fromEntries(Object.entries(phases).map(([name, ms]) => [name, rounded(Math.max(0, ms))]));
}

const rounded = (ms: number): number => Math.round(ms * 100) / 100;
