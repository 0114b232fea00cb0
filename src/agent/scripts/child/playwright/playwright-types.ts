/** A context, a page, a request as the client side of Playwright gives them. Only what is used here. */
export interface Page {
  url(): string;
  isClosed(): boolean;
  screenshot(options: { path: string; timeout: number; fullPage?: boolean }): Promise<unknown>;
  mainFrame(): unknown;
  video(): { path(): Promise<string> } | null;
}
export interface Frame {
  url(): string;
  parentFrame(): Frame | null;
  page(): Page;
}
export interface Request {
  url(): string;
  resourceType(): string;
  isNavigationRequest(): boolean;
  frame(): Frame;
  failure(): { errorText: string } | null;
}
export interface Response {
  url(): string;
  status(): number;
  request(): Request;
}
export interface BrowserContext {
  pages(): Page[];
  on(event: 'page', listener: (page: Page) => void): void;
  on(event: 'console', listener: (message: { type(): string }) => void): void;
  on(event: 'weberror', listener: () => void): void;
  on(event: 'response', listener: (response: Response) => void): void;
  on(event: 'requestfailed', listener: (request: Request) => void): void;
  addInitScript(script: { content: string }): Promise<void>;
  exposeBinding(
    name: string,
    callback: (source: { page: Page; frame: Frame }, value: unknown) => void,
  ): Promise<void>;
  tracing: {
    start(options: { screenshots: boolean; snapshots: boolean; sources: boolean }): Promise<void>;
    stop(options?: { path: string }): Promise<void>;
  };
}

/** Options of a launch as the server side gets them, after everybody has had a say. */
export interface LaunchOptions {
  args?: string[];
  channel?: string;
  chromiumSandbox?: boolean;
  downloadsPath?: string;
  env?: { name: string; value: string }[];
  executablePath?: string;
  headless?: boolean;
  ignoreDefaultArgs?: string[];
  ignoreAllDefaultArgs?: boolean;
  proxy?: { server: string; bypass?: string; username?: string; password?: string };
  slowMo?: number;
  tracesDir?: string;
  [other: string]: unknown;
}
/** One request of an API request context, each hop of a redirect by itself. */
export interface ApiRequestEvent {
  url: URL;
  method: string;
}
export interface ApiResponseEvent {
  requestEvent: ApiRequestEvent;
  statusCode: number;
  body?: Buffer;
  timings: Record<'send' | 'wait' | 'receive' | 'dns' | 'connect' | 'ssl' | 'blocked', number>;
}
