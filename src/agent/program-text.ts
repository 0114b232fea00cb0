import { readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';

/** The file beside `here`, in the sources as in the build. */
export const fileBeside = (name: string, here: string): URL =>
  new URL(`./${name}.${here.endsWith('.ts') ? 'ts' : 'js'}`, here);

/** The text of one of our own files as JavaScript, for a program that is to run it from elsewhere. */
export function programText(file: URL): string {
  const source = readFileSync(file, 'utf8');
  return file.pathname.endsWith('.ts') ? withoutTypes(source) : source;
}

/** What Node does with every file of a checkout; asked for by name, it warns that this is experimental. */
function withoutTypes(source: string): string {
  const own = Object.getOwnPropertyDescriptor(process, 'emitWarning')!;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    Object.defineProperty(process, 'emitWarning', own);
  }
}
