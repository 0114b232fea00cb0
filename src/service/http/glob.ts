/**
 * True when the whole text fits the pattern: `*` stands for any characters, `?` for one. Not by way of a
 * regular expression, which a pattern of many stars could keep busy for minutes.
 */
export function matchesGlob(text: string, pattern: string): boolean {
  let at = 0;
  let rule = 0;
  /** The last star, and how far the text was when it last took a character more. */
  let star = -1;
  let taken = 0;
  while (at < text.length) {
    if (pattern[rule] === '*') {
      star = rule++;
      taken = at;
    } else if (pattern[rule] === '?' || pattern[rule] === text[at]) {
      rule++;
      at++;
    } else if (star >= 0) {
      rule = star + 1;
      at = ++taken;
    } else return false;
  }
  while (pattern[rule] === '*') rule++;
  return rule === pattern.length;
}
