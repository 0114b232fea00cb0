import { writeFileSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import type { Question } from '../protocol.ts';

/**
 * A config that takes the project's own and adds to it. It lies in the same folder, so that every path in
 * the project's means the same; and it is written in the project's own language, so that Playwright loads
 * both in the same way.
 *
 * @returns its path
 */
export function wrap({
  config,
  additions,
  options,
}: Extract<Question, { do: 'wrap' }>): Promise<{ path: string }> {
  const ending = extname(config);
  const path = join(dirname(config), `.vedette-${process.pid}.config${ending}`);
  const own = JSON.stringify(`./${basename(config)}`);
  const result = `withAdditions(own, ${JSON.stringify(options)})`;
  const isCommonJs = ending === '.cjs' || ending === '.cts';
  const code = additions.replace('export function', 'function');
  const text = isCommonJs
    ? `const own = require(${own});\n${code}\nmodule.exports = ${result};\n`
    : `import * as own from ${own};\n${code}\nexport default ${result};\n`;
  writeFileSync(path, text, { flag: 'wx' });
  return Promise.resolve({ path });
}
