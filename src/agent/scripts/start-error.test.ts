import { expect, test } from 'vitest';
import { startErrorIn } from './start-error.ts';

test.each([
  [
    'an option that Node does not know',
    'node: bad option: --no-such-flag\n',
    'node: bad option: --no-such-flag',
  ],
  [
    'an error that nobody caught',
    `node:internal/modules/cjs/loader:1228
  throw err;
  ^

Error: Cannot find module '/a/b.js'
    at Function._resolveFilename (node:internal/modules/cjs/loader:1225:15)
    at node:internal/main/run_main_module:36:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v24.13.1
`,
    "Error: Cannot find module '/a/b.js'",
  ],
  [
    'an error with a code',
    'x:1\nTypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension ".ts"\n    at a\n\nNode.js v22.11.0',
    'TypeError [ERR_UNKNOWN_FILE_EXTENSION]: Unknown file extension ".ts"',
  ],
  [
    'no memory',
    `<--- Last few GCs --->

[7:0x1] 50 ms: Mark-Compact 3.5 (4.0) -> 3.4 (4.2) MB, 1.1 / 0.0 ms
FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----

 1: 0xe1a2b3 node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]
`,
    'FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory',
  ],
  [
    'a check of V8',
    `

#
# Fatal error in , line 0
# Check failed: reservation_.SetPermissions().
#
#
#
#FailureMessage Object: 0x7ffd2e8
----- Native stack trace -----

 1: 0xe1a2b3  [node]
`,
    'Check failed: reservation_.SetPermissions().',
  ],
  [
    'a check of Node',
    `
  #  node[7]: void node::UVException() at ../src/node.cc:97
  #  Assertion failed: !(err)

----- Native stack trace -----

 1: 0xe1a2b3  [node]


----- JavaScript stack trace -----

1: node:internal/bootstrap/node:40:5
`,
    'Assertion failed: !(err)',
  ],
  [
    'a library that is missing',
    'libx.so: cannot open shared object file\n',
    'libx.so: cannot open shared object file',
  ],
  ['nothing', '\n \n', ''],
])('of %s the line that says why', (_what, words, line) => expect(startErrorIn(words)).toBe(line));
