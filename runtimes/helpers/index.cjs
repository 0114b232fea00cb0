const { readFileSync, writeFileSync } = require('node:fs');

const FILE = 'degraded.json';
const MAX_REASON_BYTES = 100;

/**
 * Marks the run as degraded: a run without failures, or with failed soft assertions only, gets the status
 * degraded instead of passed or failed. May be called several times.
 */
function markCheckAsDegraded(reason) {
  if (reason !== undefined && typeof reason !== 'string') {
    throw new TypeError('markCheckAsDegraded: the reason must be a string');
  }
  const text = reason ?? '';
  const bytes = Buffer.byteLength(text);
  if (bytes >= MAX_REASON_BYTES) {
    throw new RangeError(
      `markCheckAsDegraded: the reason has ${bytes} bytes; fewer than ${MAX_REASON_BYTES} are allowed`,
    );
  }
  const messages = [...readMessages(), text];
  writeFileSync(FILE, JSON.stringify({ messages }));
}

function readMessages() {
  try {
    const { messages } = JSON.parse(readFileSync(FILE, 'utf8'));
    return Array.isArray(messages) ? messages : [];
  } catch (error) {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return [];
    throw error;
  }
}

/** How long an API response took as a whole, ms; null when Playwright does not know. */
function getAPIResponseTime(response) {
  const timing = typeof response?.timing === 'function' ? response.timing() : response?._initializer?.timing;
  const end = timing?.responseEnd ?? timing?.responseEndTiming;
  return typeof end === 'number' && end >= 0 ? end : null;
}

module.exports = { markCheckAsDegraded, getAPIResponseTime };
