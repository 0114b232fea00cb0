import type { APIResponse } from 'playwright-core';

/**
 * Marks the run as degraded. A run without failures, or with failed soft assertions only, is shown as
 * degraded; a hard failure stays a failure.
 *
 * @param reason fewer than 100 bytes
 * @throws RangeError when the reason is longer
 */
export function markCheckAsDegraded(reason?: string): void;

/** How long an API response took as a whole, ms; null when Playwright does not know. */
export function getAPIResponseTime(response: APIResponse): number | null;
