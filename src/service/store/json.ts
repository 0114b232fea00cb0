/**
 * JSON text that PostgreSQL's jsonb takes. It refuses two things that targets do send: the character
 * U+0000 and halves of surrogate pairs; both become U+FFFD.
 */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  return /\\u(0000|d[89a-f])/i.test(text) ? JSON.stringify(value, wellFormed) : text;
}

function wellFormed(_key: string, value: unknown): unknown {
  if (typeof value === 'string') return clean(value);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [clean(key), each]));
}

const clean = (text: string): string => text.toWellFormed().replaceAll('\0', '\u{FFFD}');
