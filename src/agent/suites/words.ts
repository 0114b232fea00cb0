import { stripVTControlCharacters } from 'node:util';

/** Without the colours of a terminal. */
export const shownText = (text: string): string => stripVTControlCharacters(text);

/** Texts of a job for its reader: without colours, and without the folders of this machine. */
export function wordsOf(
  folder: string,
  others: readonly (readonly [path: string, shown: string])[],
): (text: string) => string {
  const places = [[`${folder}/project/`, ''], [`${folder}/project`, '.'], [folder, '~'], ...others] as const;
  return (text) =>
    places.reduce((shown, [path, instead]) => shown.replaceAll(path, instead), shownText(text));
}

const MAX_CHARS = 4_000;

/** The end of what a command printed, as a part of a sentence. */
export function lastLines(text: string, lines: number): string {
  const kept = shownText(text)
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .slice(-lines)
    .join('\n');
  return kept.length > MAX_CHARS ? `…${kept.slice(-MAX_CHARS)}` : kept;
}
