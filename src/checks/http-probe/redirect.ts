import { TargetFailure } from './failure.ts';

/** What a client asks for; changes from hop to hop. */
export interface HopRequest {
  method: string;
  url: URL;
  /** Without Host, Content-Length and Connection, which each hop makes anew unless Host is given. */
  headers: readonly (readonly [name: string, value: string])[];
  body: Buffer | null;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);
/** Meant for the first origin only. */
const PRIVATE_HEADERS = new Set(['authorization', 'cookie', 'proxy-authorization', 'host']);
const CONTENT_HEADERS = /^content-/i;

/** Whether clients follow: a redirect status with a Location. Without one it is the answer itself. */
export function isRedirect(status: number, location: string | undefined): location is string {
  return REDIRECTS.has(status) && location !== undefined && location.trim() !== '';
}

/**
 * The request that follows, by the rules of fetch: 303, and 301 or 302 to a POST, become a GET without
 * a body; credentials and a Host of the user's own stay with the origin that they were meant for.
 *
 * @throws TargetFailure when the Location leads nowhere that HTTP can go
 */
export function redirected(request: HopRequest, status: number, location: string): HopRequest {
  const url = destination(request.url, location);
  const { method } = request;
  const toGet =
    (status === 303 && method !== 'GET' && method !== 'HEAD') ||
    ((status === 301 || status === 302) && method === 'POST');
  const sameOrigin = url.origin === request.url.origin;
  const headers = request.headers.filter(
    ([name]) =>
      (sameOrigin || !PRIVATE_HEADERS.has(name.toLowerCase())) && !(toGet && CONTENT_HEADERS.test(name)),
  );
  return { url, method: toGet ? 'GET' : method, headers, body: toGet ? null : request.body };
}

function destination(base: URL, location: string): URL {
  const url = URL.canParse(location, base) ? new URL(location, base) : null;
  if (url === null || url.hostname === '') {
    throw new TargetFailure(
      'INVALID_REDIRECT',
      `the redirect's Location is not a valid URL: ${location}`,
      false,
    );
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new TargetFailure(
      'INVALID_REDIRECT',
      `the redirect leads to ${url.protocol}//…, which is neither http nor https: ${location}`,
      false,
    );
  }
  if (url.hash === '') url.hash = base.hash;
  return url;
}
