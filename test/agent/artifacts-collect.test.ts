import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  linkSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { collect } from '../../src/agent/artifacts/index.ts';
import { createScrubber } from '../../src/agent/scrub/index.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const SECRET = 'correct-horse-battery';
const MASK = '*********';
const PNG = Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), Buffer.from(`\0\0${SECRET}`)]);

/** A job folder with these files, and what the collector makes of them. */
async function collected(
  files: Record<string, string | Buffer>,
  more: { wanted?: { path: string; name: string }[]; prepare?(folder: string): void; limits?: object } = {},
) {
  using folder = temporaryFolder();
  const job = join(folder.path, 'job');
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(job, path)), { recursive: true });
    writeFileSync(join(job, path), content);
  }
  more.prepare?.(job);
  const wanted = more.wanted ?? Object.keys(files).map((path) => ({ path, name: path }));
  const into = join(folder.path, 'artifacts/result');
  const found = await collect({
    folder: job,
    wanted: wanted.map((each) => ({ kind: 'file', ...each })),
    scrubber: createScrubber([SECRET]),
    into,
    ...more.limits,
  });
  const contents = Object.fromEntries(found.files.map(({ name, path }) => [name, readFileSync(path)]));
  for (const { path, size, sha256 } of found.files) {
    expect(statSync(path)).toMatchObject({ size });
    expect(createHash('sha256').update(readFileSync(path)).digest('hex')).toBe(sha256);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  }
  return { ...found, contents, reasons: found.refused.map(({ reason }) => reason) };
}

describe('what is taken', () => {
  test('texts without their secrets, pictures as they are, with their types', async () => {
    const { files, contents, refused } = await collected({
      'out/log.txt': `line ${SECRET}\n`.repeat(50_000),
      'report.json': JSON.stringify({ token: SECRET, n: 1 }),
      'page.html': `<b title="${SECRET}">`,
      'unknown.thing': SECRET,
      'shot.png': PNG,
      'not-really.png': SECRET,
      empty: '',
    });
    expect(refused).toEqual([]);
    expect(contents['out/log.txt']?.toString()).toBe(`line ${MASK}\n`.repeat(50_000));
    expect(JSON.parse(contents['report.json']!.toString())).toEqual({ token: MASK, n: 1 });
    expect(contents['page.html']?.toString()).toBe(`<b title="${MASK}">`);
    expect(contents['unknown.thing']?.toString()).toBe(MASK);
    expect(contents['not-really.png']?.toString()).toBe(MASK);
    expect(contents['shot.png']).toEqual(PNG);
    expect(contents['empty']).toEqual(Buffer.alloc(0));
    expect(files.map(({ name, contentType }) => [name, contentType])).toContainEqual([
      'shot.png',
      'image/png',
    ]);
  });

  test('a name without its secret, and not more of it than a name may have', async () => {
    const { files, reasons } = await collected(
      { a: '1', b: '2', c: '3' },
      {
        wanted: [
          { path: 'a', name: `shots/${SECRET}.png` },
          { path: 'b', name: `shots/${SECRET}.png` },
          { path: 'c', name: 'n'.repeat(300) },
        ],
      },
    );
    expect(files.map(({ name }) => name)).toEqual([`shots/${MASK}.png`]);
    expect(reasons).toEqual([
      expect.stringContaining('another file is called'),
      expect.stringContaining('its name is not allowed'),
    ]);
  });
});

describe('what is refused', () => {
  test.each<[string, string, (folder: string) => void]>([
    ['a link', 'it is a link', (f) => symlinkSync('/etc/passwd', join(f, 'x'))],
    ['a link to nothing', 'it is a link', (f) => symlinkSync('/nowhere', join(f, 'x'))],
    ['a second name of a file', 'it has several names', (f) => linkSync(join(f, 'plain'), join(f, 'x'))],
    ['a pipe', 'it is no file', (f) => execFileSync('mkfifo', [join(f, 'x')])],
    ['a folder', 'it is no file', (f) => mkdirSync(join(f, 'x'))],
    ['nothing', 'it was not there', () => {}],
    [
      'a terabyte of holes',
      'it has 1000000000000 bytes, more than the 150000000',
      (f) => {
        writeFileSync(join(f, 'x'), '');
        truncateSync(join(f, 'x'), 1e12);
      },
    ],
  ])('%s', async (_, reason, prepare) => {
    const { files, refused } = await collected(
      { plain: 'p' },
      { prepare, wanted: [{ path: 'x', name: 'x' }] },
    );
    expect(files).toEqual([]);
    expect(refused).toMatchObject([{ name: 'x', state: 'refused', sha256: null }]);
    expect(refused[0]?.reason).toMatch(new RegExp(`^${reason}`));
  });

  test('a socket', async () => {
    const server = createServer();
    const { reasons } = await collected(
      { plain: 'p' },
      {
        prepare: (folder) => void server.listen(join(folder, 'x')),
        wanted: [{ path: 'x', name: 'x' }],
      },
    );
    server.close();
    expect(reasons).toEqual(['it is no file']);
  });

  test.each([
    '../job/plain',
    '/etc/passwd',
    'a/../plain',
    './plain',
    'a//b',
    'a\nb',
    'a\0b',
    '',
    'd/'.repeat(12) + 'x',
  ])('the path %j', async (path) => {
    const { files, refused } = await collected({ plain: 'p' }, { wanted: [{ path, name: 'x' }] });
    expect(files).toEqual([]);
    expect(refused).toHaveLength(1);
  });

  test.each(['', '..', '../x', '/x', 'a//b', 'a\\b', 'a\u0007b', 'a\u202eb'])('the name %j', async (name) => {
    const { files, reasons } = await collected({ plain: 'p' }, { wanted: [{ path: 'plain', name }] });
    expect(files).toEqual([]);
    expect(reasons).toEqual([expect.stringContaining('its name is not allowed')]);
  });

  test('a way over a linked folder', async () => {
    const { reasons } = await collected(
      { 'real/plain': 'p' },
      {
        prepare: (folder) => symlinkSync('real', join(folder, 'link')),
        wanted: [{ path: 'link/plain', name: 'x' }],
      },
    );
    expect(reasons).toEqual(['its path leads over a link or a file']);
  });

  test('more bytes than a file or all files of a result may have, with the figures', async () => {
    const { files, reasons } = await collected(
      { a: 'x'.repeat(60), b: 'x'.repeat(60), c: 'x'.repeat(101) },
      { limits: { maxFileBytes: 100, maxResultBytes: 100 } },
    );
    expect(files.map(({ name }) => name)).toEqual(['a']);
    expect(reasons).toEqual([
      'it has 60 bytes, and with it the files of this result exceed 100 bytes',
      'it has 101 bytes, more than the 100 that a file may have',
    ]);
  });

  test('more files than a result may name', async () => {
    const wanted = Array.from({ length: 2500 }, (_, i) => ({ path: `none-${i}`, name: `none-${i}` }));
    const { refused } = await collected({ plain: 'p' }, { wanted });
    expect(refused).toHaveLength(2000);
    expect(refused.at(-1)).toMatchObject({ name: '501 more files', reason: expect.stringContaining('2000') });
  });
});

interface Entry {
  name: string;
  content: string | Buffer;
  /** Stored as it is instead of deflated. */
  stored?: boolean;
  method?: number;
  flags?: number;
  /** What its header says instead of the truth. */
  size?: number;
}

/** An archive as other programs write it. */
function zip(entries: readonly Entry[], comment = ''): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  const packedOf = new Map<string | Buffer, Buffer>();
  let offset = 0;
  for (const { name, content, stored = false, method = stored ? 0 : 8, flags = 0x800, size } of entries) {
    const bytes = typeof content === 'string' ? Buffer.from(content) : content;
    const packed = stored ? bytes : (packedOf.get(content) ?? deflateRawSync(bytes));
    packedOf.set(content, packed);
    const common = Buffer.alloc(26);
    common.writeUInt16LE(20, 0);
    common.writeUInt16LE(flags, 2);
    common.writeUInt16LE(method, 4);
    common.writeUInt32LE(0x5a21_6000, 6);
    common.writeUInt32LE(crc32(bytes), 10);
    common.writeUInt32LE(packed.length, 14);
    common.writeUInt32LE(size ?? bytes.length, 18);
    common.writeUInt16LE(Buffer.byteLength(name), 22);
    parts.push(Buffer.from('PK\x03\x04'), common, Buffer.from(name), packed);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(offset, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\0'), common, tail, Buffer.from(name));
    offset += 30 + Buffer.byteLength(name) + packed.length;
  }
  const listing = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(listing.length, 12);
  end.writeUInt32LE(offset, 16);
  end.writeUInt16LE(comment.length, 20);
  return Buffer.concat([...parts, listing, end, Buffer.from(comment)]);
}

/** What another program finds in an archive, after it checked all of it. */
function unzipped(archive: Buffer): Record<string, Buffer> {
  using folder = temporaryFolder();
  const file = join(folder.path, 'a.zip');
  writeFileSync(file, archive);
  const script = `import sys, zipfile, json, base64
z = zipfile.ZipFile(sys.argv[1])
assert z.testzip() is None
print(json.dumps({i.filename: base64.b64encode(z.read(i)).decode() for i in z.infolist()}))`;
  const found = execFileSync('python3', ['-c', script, file], { encoding: 'utf8', maxBuffer: 1e9 });
  const entries = Object.entries(JSON.parse(found) as Record<string, string>);
  return Object.fromEntries(entries.map(([name, text]) => [name, Buffer.from(text, 'base64')]));
}

describe('archives', () => {
  test('members without their secrets; what has none is kept byte for byte', async () => {
    const lines = `{"type":"log","text":"${SECRET}"}\n`.repeat(30_000);
    const plain = JSON.stringify({ nothing: 'here', n: 1 });
    const { contents } = await collected({
      'trace.zip': zip(
        [
          { name: 'trace.trace', content: lines },
          { name: 'trace.network', content: plain },
          { name: 'resources/a.png', content: PNG, stored: true },
          { name: `resources/${SECRET}.txt`, content: SECRET, stored: true },
          { name: 'resources/empty.txt', content: '' },
        ],
        'a comment',
      ),
    });
    const members = unzipped(contents['trace.zip']!);
    expect(Object.keys(members)).toEqual([
      'trace.trace',
      'trace.network',
      'resources/a.png',
      `resources/${MASK}.txt`,
      'resources/empty.txt',
    ]);
    expect(members['trace.trace']?.toString()).toBe(lines.replaceAll(SECRET, MASK));
    expect(members['trace.network']?.toString()).toBe(plain);
    expect(members['resources/a.png']).toEqual(PNG);
    expect(members[`resources/${MASK}.txt`]?.toString()).toBe(MASK);
    expect(contents['trace.zip']!.includes(deflateRawSync(Buffer.from(plain)))).toBe(true);
  });

  test.each<[string, Buffer, RegExp]>([
    ['cut off', zip([{ name: 'a', content: 'x'.repeat(100) }]).subarray(0, 100), /cannot be read as a ZIP/],
    ['no directory', Buffer.from(`PK\x03\x04 ${SECRET}`), /cannot be read as a ZIP/],
    [
      'bytes that do not unpack',
      zip([{ name: 'a', content: SECRET, stored: true, method: 8 }]),
      /cannot be read as/,
    ],
    ['a method of another age', zip([{ name: 'a', content: SECRET, method: 12 }]), /packed in a way/],
    ['encrypted', zip([{ name: 'a', content: SECRET, flags: 1 }]), /encrypted/],
  ])('%s: refused', async (_, archive, reason) => {
    const { files, reasons } = await collected({ 'a.zip': archive });
    expect(files).toEqual([]);
    expect(reasons).toEqual([expect.stringMatching(reason)]);
  });

  test('a bomb is refused before anything of it is unpacked', async () => {
    const bomb = Buffer.alloc(50_000_000, 'a');
    const members = Array.from({ length: 25 }, (_, i) => ({ name: `${i}`, content: bomb }));
    const { reasons } = await collected({ 'bomb.zip': zip(members) });
    expect(reasons).toEqual([
      expect.stringContaining('it unpacks to 1250000000 bytes, more than 1000000000'),
    ]);
  });

  test('a bomb that calls itself small is refused once it has that size', async () => {
    const member = { name: 'a', content: Buffer.alloc(50_000_000, 'a'), size: 100 };
    const { reasons } = await collected({ 'bomb.zip': zip([member]) });
    expect(reasons).toEqual([expect.stringContaining('cannot be read as a ZIP archive')]);
  });
});
