import { ApiRequests, type RequestNode } from './api-requests.ts';
import { launchOptions, type BrowserPolicy } from './browsers.ts';
import type { PlaywrightHooks } from './hooks.ts';
import type { BrowserContext } from './playwright-types.ts';
import { Pages, type PageErrors, type PageResult } from './pages.ts';

const USER_AGENT = 'Vedette';
const API_USER_AGENT = 'Vedette/1.0';

/** What was seen in one process. */
export interface Observed {
  pages: PageResult[];
  errors: PageErrors;
  requests: RequestNode[];
}

interface ContextListener {
  begin(context: BrowserContext): Promise<void>;
  end(context: BrowserContext): Promise<void>;
}

/** Starts browsers as the policy wants, and sees what pages and requests do, here and in forked workers. */
export class Observer {
  readonly pages: Pages;
  readonly #requests: ApiRequests;
  readonly #elsewhere = new Map<object, Observed>();
  /** What is done with each context besides. */
  contexts: ContextListener | undefined;

  constructor(onChange: () => void) {
    this.pages = new Pages(onChange);
    this.#requests = new ApiRequests(onChange);
  }

  install(hooks: PlaywrightHooks, policy: () => BrowserPolicy): void {
    hooks.install({
      launch: (name, options) => launchOptions(name, options, policy()),
      userAgentSuffix: USER_AGENT,
      apiUserAgent: API_USER_AGENT,
      contextCreated: async (context) => {
        await this.pages.watch(context);
        await this.contexts?.begin(context);
      },
      contextClosing: async (context) => this.contexts?.end(context),
      apiRequest: (event) => this.#requests.begin(event),
      apiResponse: (event) => this.#requests.end(event),
    });
  }

  /** @param process identity of a forked worker, which sends all that it saw again and again */
  take(process: object, observed: Observed): void {
    this.#elsewhere.set(process, observed);
  }

  get observed(): Observed {
    const all = [
      { pages: this.pages.results, errors: this.pages.errors, requests: this.#requests.nodes },
      ...this.#elsewhere.values(),
    ];
    const sum = (kind: keyof PageErrors): number =>
      all.reduce((total, { errors }) => total + errors[kind], 0);
    return {
      pages: all.flatMap(({ pages }) => pages),
      errors: {
        consoleErrors: sum('consoleErrors'),
        networkErrors: sum('networkErrors'),
        documentErrors: sum('documentErrors'),
      },
      requests: all.flatMap(({ requests }) => requests),
    };
  }
}
