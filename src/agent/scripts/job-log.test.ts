import { expect, test } from 'vitest';
import { createScrubber } from '../scrub/index.ts';
import { JobLog } from './job-log.ts';

const nothing = createScrubber([]);

test('keeps what is said in order, prints cut into lines, and is empty afterwards', () => {
  const log = new JobLog();
  log.add('warn', 'one\nentry', 1000);
  log.print('info', Buffer.from('a\nb'));
  log.print('info', Buffer.from('c\n'));
  log.print('error', Buffer.from('d'));
  expect(log.take(nothing).map(({ level, msg }) => [level, msg])).toEqual([
    ['WARN', 'one\nentry'],
    ['INFO', 'a'],
    ['INFO', 'bc'],
    ['ERROR', 'd'],
  ]);
  expect(log.take(nothing)).toEqual([]);
});

test('a secret is masked, also across two prints and when it became one later', () => {
  const log = new JobLog();
  const scrubber = createScrubber(['hunter-two']);
  log.print('info', Buffer.from('the word is hunter'));
  log.print('info', Buffer.from('-two\n'));
  log.add('info', 'a token: f00f-c7c8');
  scrubber.add('f00f-c7c8');
  const text = JSON.stringify(log.take(scrubber));
  expect(text).toContain('the word is');
  expect(text).not.toMatch(/hunter|f00f/);
});

test('a flood is cut at the limit and counted', () => {
  const log = new JobLog();
  const chunk = Buffer.alloc(65_536, 'x\n');
  for (let i = 0; i < 16_384; i++) log.print('info', chunk);
  const lines = log.take(nothing);
  expect(lines).toHaveLength(2001);
  expect(lines.at(-1)).toMatchObject({
    level: 'WARN',
    msg: '123000 lines and 1073491824 bytes more were left out: a log holds 250 kB and 2000 lines',
  });
});

test('a long line says how much of it is missing', () => {
  const log = new JobLog();
  log.add('info', 'y'.repeat(12_000));
  expect(log.take(nothing)[0]!.msg).toMatch(/^y{10000}… \(2000 more characters\)$/);
});

test('a character that comes in two chunks is one, whatever another stream prints between them', () => {
  const log = new JobLog();
  const [first, second] = [Buffer.from('a€').subarray(0, 2), Buffer.from('a€').subarray(2)];
  log.print('info', first);
  log.print('error', Buffer.from('ü\n'));
  log.print('info', second);
  const said = log.take(nothing).map(({ msg }) => msg);
  expect(said.join('')).toBe('aü€');
});

const LONG_SECRET = 'long'.repeat(40);
const say = {
  print: (log: JobLog, text: string) => log.print('info', Buffer.from(text)),
  add: (log: JobLog, text: string) => log.add('info', text),
};

test.each([
  ['print', 'the log', 24],
  ['add', 'the log', 24],
  ['add', 'a line', 0],
] as const)('%s: of a secret that is cut by the limit of %s nothing is left', (how, _what, before) => {
  for (const secret of ['hunter-two', LONG_SECRET]) {
    for (const within of [1, 5, secret.length - 1, secret.length]) {
      const log = new JobLog();
      for (let i = 0; i < before; i++) say[how](log, 'x'.repeat(10_000));
      say[how](log, `${'y'.repeat(10_000 - within)}${secret} and the rest`);
      const shown = log.take(createScrubber([secret])).filter(({ level }) => level === 'INFO');
      expect(shown.at(-1)!.msg).toMatch(/^[xy]+(\*+)?(… \(\d+ more characters\))?$/);
    }
  }
});

test('no half of a character is left at a cut', () => {
  const log = new JobLog();
  log.add('info', `${'y'.repeat(9_999)}😀😀`);
  expect(log.take(nothing)[0]!.msg).toBe(`${'y'.repeat(9_999)}… (3 more characters)`);
});
