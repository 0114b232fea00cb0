export const MASK = '*********';

/** Shorter values are no secrets: hiding `on` or `42` would hide half of every result. */
const MIN_CHARS = 4;
/** Less of a base64 text turns up by chance: 64⁶ is one in 69 GB of it. */
const MIN_BASE64_CHARS = 6;
/** A secret of several lines is printed line by line; a line with less may stand in any text. */
const MIN_LINE_CHARS = 16;

/** Values that would ruin what they are taken out of. */
const GENERIC = new Set(['http://', 'https://', '/artifact/', 'true', 'false', 'null', 'undefined']);

/** Whether this value is looked for at all. */
export function isSecret(value: string): boolean {
  return value.length >= MIN_CHARS && !GENERIC.has(value) && !/^[*\s]*$/.test(value);
}

/** The texts to look for on behalf of one secret value: itself, its lines, and every encoding of them. */
export function formsOf(secret: string): Set<string> {
  const forms = new Set<string>();
  for (const value of partsOf(secret.toWellFormed())) {
    for (const form of [value, ...urlForms(value), ...jsonForms(value), ...htmlForms(value)]) forms.add(form);
    const bytes = Buffer.from(value);
    forms.add(bytes.toString('hex')).add(bytes.toString('hex').toUpperCase());
    for (const form of base64Forms(bytes)) forms.add(form);
  }
  // An address takes line ends out of what it is given, and may leave less than a secret.
  return new Set([...forms].filter(isSecret));
}

function partsOf(secret: string): string[] {
  const lines = secret.split(/\r?\n/);
  const long = lines.length < 2 ? [] : lines.map((line) => line.trim()).filter(isLine);
  return [...new Set([secret, secret.trim(), ...long])].filter(isSecret);
}

/** `-----BEGIN …` gives nothing away. */
const isLine = (line: string): boolean => line.length >= MIN_LINE_CHARS && !line.startsWith('-----');

/** encodeURIComponent, RFC 3986, forms, query and user part of an address, and one encoded twice. */
function urlForms(value: string): string[] {
  const component = encodeURIComponent(value);
  const strict = component.replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  const url = new URL('http://host/');
  url.search = value;
  url.password = value;
  const upper = [
    component,
    strict,
    strict.replaceAll('%20', '+'),
    new URLSearchParams([['', value]]).toString().slice(1),
    encodeURI(value),
    url.search.slice(1),
    url.password,
    encodeURIComponent(component),
  ];
  const lower = upper.map((form) => form.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()));
  return [...upper, ...lower];
}

/** As JSON.stringify, as writers that keep to ASCII or to what HTML allows, with `\/`, and nested in JSON again. */
function jsonForms(value: string): string[] {
  const inJson = (text: string): string => JSON.stringify(text).slice(1, -1);
  const plain = inJson(value);
  const twice = inJson(plain);
  const escaped = [plain, escapeUnits(plain, /[^\0-\x7f]/g), escapeUnits(plain, /[<>&'\u2028\u2029]/g)];
  escaped.push(escapeUnits(plain, /[^\0-\x7f]|[<>&']/g));
  const cased = escaped.flatMap((form) => [form, form.replace(/\\u[0-9a-f]{4}/g, upperDigits)]);
  return [...cased, ...cased.map((form) => form.replaceAll('/', '\\/')), twice, inJson(twice)];
}

const escapeUnits = (text: string, which: RegExp): string =>
  text.replace(which, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
const upperDigits = (escape: string): string => `\\u${escape.slice(2).toUpperCase()}`;

/** Text and attributes, with each of the usual spellings of the apostrophe. */
function htmlForms(value: string): string[] {
  const text = value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const attribute = text.replaceAll('"', '&quot;');
  const old = value.replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  const apostrophes = ['&#39;', '&#x27;', '&apos;'].map((code) => attribute.replaceAll("'", code));
  return [text, attribute, old, ...apostrophes, apostrophes[0]!.replaceAll('&quot;', '&#34;')];
}

/**
 * The characters that depend on the secret alone, for each of its three places in a group of three bytes;
 * and the same with the last character that a text has which ends with the secret.
 */
function* base64Forms(secret: Buffer): Iterable<string> {
  for (const skipped of [0, 1, 2]) {
    const text = Buffer.concat([Buffer.alloc(skipped), secret])
      .toString('base64')
      .replace(/=+$/, '');
    const bits = (skipped + secret.length) * 8;
    const first = Math.ceil((skipped * 8) / 6);
    for (const form of [text.slice(first, Math.floor(bits / 6)), text.slice(first)]) {
      if (form.length < MIN_BASE64_CHARS) continue;
      yield form;
      yield form.replaceAll('+', '-').replaceAll('/', '_');
    }
  }
}
