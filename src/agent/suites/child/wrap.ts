import { writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Question } from '../protocol.ts';

const HERE = import.meta.url;
/** Beside this file, in the sources as in the build. */
const ADDITIONS = new URL(HERE.endsWith('.ts') ? './additions.ts' : './additions.js', HERE);

/**
 * A config that takes the project's own and adds to it. It lies in the same folder, so that every path in
 * the project's means the same; and it is written in the project's own language, so that Playwright loads
 * both in the same way.
 *
 * @returns its path
 */
export function wrap({ config, wrapper }: Extract<Question, { do: 'wrap' }>): Promise<{ path: string }> {
  const ending = extname(config);
  const path = join(dirname(config), `.vedette-${process.pid}.config${ending}`);
  const own = JSON.stringify(`./${basename(config)}`);
  const additions = JSON.stringify(fileURLToPath(ADDITIONS));
  const options = JSON.stringify(wrapper);
  const isCommonJs = ending === '.cjs' || ending === '.cts';
  const text = isCommonJs
    ? `module.exports = require(${additions}).withAdditions(require(${own}), ${options});\n`
    : `import * as own from ${own};\nimport { withAdditions } from ${additions};\n` +
      `export default withAdditions(own, ${options});\n`;
  writeFileSync(path, text, { flag: 'wx' });
  return Promise.resolve({ path });
}
