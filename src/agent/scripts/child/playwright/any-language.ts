/** Translates one file for Node: Playwright's Babel. */
export type Translate = (code: string, file: string, ...rest: unknown[]) => Translated;
interface Translated {
  code: string;
  map?: { sources: string[] } | null;
}
interface BabelError extends Error {
  loc?: { line: number; column: number };
}

/**
 * Understands types in files that are named as JavaScript, too: nobody says of a script in a form which
 * language it is in. What is JavaScript stays as it is.
 */
export const understandingTypes =
  (translate: Translate, isOwn: (file: string) => boolean): Translate =>
  (code, file, ...rest) => {
    try {
      return translate(code, file, ...rest);
    } catch (error) {
      if (!isOwn(file) || !/\.[cm]?js$/.test(file)) throw error;
      return asTypeScript(translate, error as BabelError, code, file, ...rest);
    }
  };

function asTypeScript(
  translate: Translate,
  asJavaScript: BabelError,
  ...[code, file, ...rest]: Parameters<Translate>
): Translated {
  const alias = `${file}.ts`;
  try {
    const { map, ...translated } = translate(code, alias, ...rest);
    return { ...translated, ...(map && { map: { ...map, sources: [file] } }) };
  } catch (error) {
    const [first, second] = [asJavaScript.loc, (error as BabelError).loc];
    const isFurther =
      second !== undefined &&
      (first === undefined ||
        second.line > first.line ||
        (second.line === first.line && second.column > first.column));
    // Of two readers the one that came further understood the text better.
    if (!isFurther) throw asJavaScript;
    (error as Error).message = (error as Error).message.replaceAll(alias, file);
    throw error;
  }
}
