import { readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createScrubber } from '../src/agent/scrub/index.ts';

/** Scrubs one file to another in a process of its own: argv are the secrets, the file, the copy. */
export interface ScrubFigures {
  cpuMs: number;
  hits: number;
  /** Largest memory of the process, over what it had before it began, MB. */
  addedMb: number;
}

const CHUNK_BYTES = 1024 * 1024;

const [secrets = '', from = '', to = ''] = process.argv.slice(2);
const idleMb = process.resourceUsage().maxRSS / 1024;
const before = process.cpuUsage();
const scrubber = createScrubber(JSON.parse(readFileSync(secrets, 'utf8')) as string[]);
const [source, target] = [await open(from), await open(to, 'w')];
const pass = scrubber.pass();
const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
for (;;) {
  const { bytesRead } = await source.read(buffer, 0, CHUNK_BYTES, null);
  if (bytesRead === 0) break;
  await target.write(pass.push(buffer.subarray(0, bytesRead)));
}
await target.write(pass.end());
const { user, system } = process.cpuUsage(before);
const figures: ScrubFigures = {
  cpuMs: (user + system) / 1000,
  hits: pass.hits,
  addedMb: process.resourceUsage().maxRSS / 1024 - idleMb,
};
console.log(JSON.stringify(figures));
