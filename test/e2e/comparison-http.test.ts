import { afterAll, beforeAll } from 'vitest';
import { compareHttp, type HttpSetting } from '../support/http-comparison.ts';
import { startProbe } from '../support/probe.ts';
import { describeUnless, lacks } from '../support/programs.ts';
import { startOddHttp, type OddHttp } from '../support/targets/odd-http.ts';
import { startBlackHole, type TcpTarget } from '../support/targets/odd-tcp.ts';
import { freePort, LOOPBACK_6 } from '../support/targets/ports.ts';

interface Setting extends HttpSetting {
  odd: OddHttp;
  odd6: OddHttp;
  hole: TcpTarget;
  closedPort: number;
}

/** Plain HTTP: framing, encodings, redirects, endings, pauses. */
describeUnless(lacks('curl'), 'URL and API checks agree with curl over HTTP', () => {
  let setting: Setting;

  beforeAll(async () => {
    setting = {
      probe: await startProbe({}),
      odd: await startOddHttp(),
      odd6: await startOddHttp(LOOPBACK_6),
      hole: await startBlackHole(),
      closedPort: await freePort(),
    };
  });
  afterAll(async () => {
    await Promise.all([setting.probe, setting.odd, setting.odd6, setting.hole].map((each) => each.stop()));
  });

  const page =
    (path: string, more: object = {}) =>
    ({ odd }: Setting) => ({ url: odd.url(path), ...more });
  /** Both sides get one second, and must spend it in the same phase. */
  const timesOutIn = (phase: 'tcp' | 'firstByte' | 'download'): object => ({ timesOut: { phase, ms: 1000 } });
  const firstLine = { body: 'first line' } as const;
  const post = {
    type: 'API',
    request: { method: 'POST', body: '{"a":1}', bodyType: 'JSON' },
    // The page shows the request head: method and target must be the same, headers need not.
    ...firstLine,
  };
  const curlPost = ['--data', '{"a":1}', '-H', 'Content-Type: application/json'];

  compareHttp('URL and API checks against curl: HTTP', () => setting, {
    'plain answer': page('/ok'),
    'empty body': page('/empty'),
    'HTTP/1.0 ends by close': page('/http10/close'),
    'HTTP/1.0 with length': page('/http10/length'),
    'HTTP/1.1 ends by close': page('/http11/close'),
    chunked: page('/chunked/plain'),
    'chunked with trailers': page('/chunked/trailers'),
    'chunked with extensions': page('/chunked/extensions'),
    'chunked, a byte each': page('/chunked/one-byte-each'),
    'chunked, bad size': page('/chunked/bad-size'),
    'chunked, no last chunk': page('/chunked/no-end'),
    'length too short a body': page('/length/short'),
    'length and more bytes': page('/length/long'),
    'length not a number': page('/length/not-a-number'),
    'length and chunked': page('/length/both'),
    'bytes after the answer': page('/pipelined-garbage'),
    '100 before 200': page('/interim/100'),
    '103, pause, 200': page('/interim/103'),
    gzip: page('/encoding/gzip'),
    'x-gzip': page('/encoding/x-gzip'),
    'deflate (zlib)': page('/encoding/deflate'),
    'deflate (raw)': page('/encoding/deflate-raw'),
    brotli: page('/encoding/br'),
    identity: page('/encoding/identity'),
    'gzip, corrupt': page('/encoding/gzip-corrupt'),
    'gzip, cut short': page('/encoding/gzip-cut', {
      deliberate: { why: 'half a body is no body', verdict: 'failed', ending: 'encoding' },
    }),
    'gzip, no bytes': page('/encoding/gzip-head'),
    'closes without a byte': page('/end/silent'),
    'resets at once': page('/end/reset'),
    'resets in the body': page('/end/reset-in-body'),
    'closes inside the head': page('/end/half-head', {
      deliberate: { why: 'half a head is no answer', verdict: 'failed', ending: 'broken' },
    }),
    'first byte late': page('/slow/first-byte', { slowPhase: 'firstByte' }),
    'body drips': page('/slow/drip', { slowPhase: 'download' }),
    'never answers': page('/slow/never', timesOutIn('firstByte')),
    'head without end': page('/slow/endless-head', timesOutIn('download')),
    'body without end': page('/slow/endless-body', timesOutIn('download')),
    'redirect loop': page('/redirect/loop'),
    'redirect, relative': page('/redirect/relative'),
    'redirect, with query': page('/redirect/query', firstLine),
    'redirect not followed': page('/redirect/relative', {
      request: { followRedirects: false },
      curl: ['-4', '--no-location'],
    }),
    'redirect without location': page('/redirect/no-location'),
    'redirect to gopher': page('/redirect/bad-scheme'),
    'redirect to nonsense': page('/redirect/not-a-url'),
    '300 with location': page('/redirect/300', {
      deliberate: { why: 'browsers do not follow 300', verdict: 'passed', ending: 'answer' },
    }),
    'POST and 302': page('/redirect/302', { ...post, curl: curlPost }),
    'POST and 303': page('/redirect/303', { ...post, curl: curlPost }),
    'POST and 307': page('/redirect/307', { ...post, curl: curlPost }),
    'POST and 308': page('/redirect/308', { ...post, curl: curlPost }),
    HEAD: page('/ok', { type: 'API', request: { method: 'HEAD' }, curl: ['--head'], body: 'nothing' }),
    'status 204': page('/status/204'),
    'status 204 with a body': page('/status/204-with-body'),
    'status 205': page('/status/205'),
    'status 304': page('/status/304'),
    'status 299': page('/status/299'),
    'status 404': page('/nowhere'),
    'status 404 wanted': page('/nowhere', { shouldFail: true }),
    'status 200, 4xx wanted': page('/ok', { shouldFail: true }),
    'status 599': page('/status/599'),
    'status 999': page('/status/999'),
    'status without reason': page('/status/no-reason'),
    'speaks SSH': page('/malformed/not-http'),
    'status line without number': page('/malformed/status-line'),
    'NUL in a header': page('/malformed/nul-in-header'),
    'line feeds only': page('/malformed/line-feeds-only'),
    'header in latin-1': page('/headers/latin1'),
    'header folded': page('/headers/folded'),
    'headers of 12 kB': page('/headers/12-kb'),
    'headers of 64 kB': page('/headers/64-kb'),
    'header of 1 MB': page('/headers/flood'),
    'binary body': page('/binary', { body: 'nothing' }),
    'closed port': ({ closedPort }) => ({ url: `http://127.0.0.1:${closedPort}/` }),
    'black hole': ({ hole }) => ({ url: `http://127.0.0.1:${hole.port}/`, ...timesOutIn('tcp') }),
    'IPv6 literal': ({ odd6 }) => ({
      url: odd6.url('/ok'),
      request: { ipFamily: 'IPv6' },
      curl: ['-6'],
      overIpv6: true,
    }),
    'IPv4 in hexadecimal': ({ odd }) => ({ url: `http://0x7f000001:${odd.port}/ok` }),
    'name that does not exist': () => ({ url: 'http://nowhere.invalid/' }),
    'path with odd characters': page('/echo/a%20b/%zz/..%2F/./x/../y?q=a%20b&c=%2F&&=#fragment', firstLine),
  });
});
