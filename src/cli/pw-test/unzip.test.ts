import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { unzip } from './unzip.ts';

/** A ZIP as any program writes it. */
function zip(files: Record<string, string>, comment = ''): Buffer {
  const parts: Buffer[] = [];
  const entries: Buffer[] = [];
  let offset = 0;
  for (const [name, text] of Object.entries(files)) {
    const packed = text.length > 20 ? deflateRawSync(text) : Buffer.from(text);
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    shared.writeUInt16LE(text.length > 20 ? 8 : 0, 4);
    shared.writeUInt32LE(crc32(text), 10);
    shared.writeUInt32LE(packed.byteLength, 14);
    shared.writeUInt32LE(Buffer.byteLength(text), 18);
    shared.writeUInt16LE(Buffer.byteLength(name), 22);
    const place = Buffer.alloc(14);
    place.writeUInt32LE(offset, 10);
    entries.push(Buffer.from([0x50, 0x4b, 1, 2, 20, 0]), shared, place, Buffer.from(name));
    parts.push(Buffer.from([0x50, 0x4b, 3, 4]), shared, Buffer.from(name), packed);
    offset += 30 + Buffer.byteLength(name) + packed.byteLength;
  }
  const list = Buffer.concat(entries);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 0, 'latin1');
  end.writeUInt16LE(Object.keys(files).length, 10);
  end.writeUInt32LE(list.byteLength, 12);
  end.writeUInt32LE(offset, 16);
  end.writeUInt16LE(comment.length, 20);
  return Buffer.concat([...parts, list, end, Buffer.from(comment)]);
}

async function unpacked(bytes: Buffer): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'vedette-unzip-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'a.zip'), bytes);
  await unzip(join(folder, 'a.zip'), join(folder, 'out'));
  return join(folder, 'out');
}

test('files come out as they went in', async () => {
  const long = 'the same again, '.repeat(1000);
  const out = await unpacked(zip({ 'index.html': '<html>', 'data/é.txt': long, 'empty/': '' }, 'a comment'));
  expect(readFileSync(join(out, 'index.html'), 'utf8')).toBe('<html>');
  expect(readFileSync(join(out, 'data/é.txt'), 'utf8')).toBe(long);
  expect(readdirSync(out).toSorted()).toEqual(['data', 'index.html']);
});

test.each(['../outside', '/outside', 'a/../../outside', String.raw`a\outside`])(
  '%j is refused',
  async (name) => {
    await expect(unpacked(zip({ [name]: 'x' }))).rejects.toThrow('is no path inside');
  },
);

test('what is damaged is refused', async () => {
  const whole = zip({ 'a.txt': 'the same again, '.repeat(1000) });
  await expect(unpacked(whole.subarray(0, -30))).rejects.toThrow('the archive is damaged');
  await expect(unpacked(Buffer.alloc(0))).rejects.toThrow('the archive is damaged');
  const lying = Buffer.from(whole);
  lying.writeUInt32LE(10, lying.indexOf('PK\x01\x02', 0, 'latin1') + 24);
  await expect(unpacked(lying)).rejects.toThrow();
});
