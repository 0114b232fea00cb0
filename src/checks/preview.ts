/** Deeper levels become an ellipsis: nobody reads them, and the stack is finite. */
const MAX_DEPTH = 500;

/**
 * A value as text of at most `limitBytes` bytes of UTF-8: strings as they are, all else as JSON. Stops
 * writing at the limit, so that a document of 25 MB costs no more than its first kilobytes.
 */
export function preview(value: unknown, limitBytes: number): string {
  if (typeof value === 'string') return cut(value, limitBytes);
  const parts: string[] = [];
  let room = limitBytes;
  const write = (text: string): boolean => {
    parts.push(text);
    room -= text.length;
    return room > 0;
  };
  writeJson(value, write, MAX_DEPTH);
  return cut(parts.join(''), limitBytes);
}

/** Cuts without splitting a character. */
export function cut(text: string, limitBytes: number): string {
  if (text.length * 3 <= limitBytes) return text;
  const bytes = Buffer.from(text.slice(0, limitBytes), 'utf8');
  if (bytes.length <= limitBytes && text.length <= limitBytes) return text;
  let end = Math.min(limitBytes, bytes.length);
  while (end > 0 && ((bytes[end] ?? 0) & 0b1100_0000) === 0b1000_0000) end--;
  return bytes.toString('utf8', 0, end);
}

/** Returns false as soon as `write` does. */
function writeJson(value: unknown, write: (text: string) => boolean, depth: number): boolean {
  if (typeof value === 'string') return write(JSON.stringify(value.slice(0, 20_000)));
  if (typeof value !== 'object' || value === null) return write(JSON.stringify(value) ?? 'null');
  if (depth === 0) return write('…');
  const isArray = Array.isArray(value);
  if (!write(isArray ? '[' : '{')) return false;
  let first = true;
  for (const name in value) {
    if (!Object.hasOwn(value, name)) continue;
    const label = isArray ? '' : `${JSON.stringify(name)}:`;
    if (!write(first ? label : `,${label}`)) return false;
    if (!writeJson((value as Record<string, unknown>)[name], write, depth - 1)) return false;
    first = false;
  }
  return write(isArray ? ']' : '}');
}
