const MAX_CHARS = 300;
/** Frames of a stack, and what Node writes below every error. */
const NOISE = /^(at |\d+: 0x|-{3,}|Node\.js v\d|[\^{}\s]*$)/;

/** The line that says why a process ended, of what it printed last: Node writes much around it. */
export function startErrorIn(lastWords: string): string {
  const lines = lastWords
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const telling =
    lines.find((line) => line.startsWith('FATAL ERROR: ')) ??
    // Checks of V8 and of Node: a place, then what was not as it should be.
    lines.findLast((line) => /^#\s+\S/.test(line))?.replace(/^#\s+/, '') ??
    lines.find((line) => /^(Uncaught )?\w*(Error|Exception)( \[\w+\])?: /.test(line)) ??
    lines.findLast((line) => !NOISE.test(line));
  return telling?.slice(0, MAX_CHARS) ?? '';
}
