import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { StringDecoder } from 'node:string_decoder';
import type { FromScript, ToScript } from '../protocol.ts';

const FD = 3;
const WAIT_MS = 1;

/**
 * The line to the agent. What is sent is written before the call returns, so that nothing is lost when user
 * code ends the process, and a flood waits for its reader. The process ends when the agent does.
 */
export function openChannel(receive: (message: ToScript) => void): (message: FromScript) => void {
  const stream = new Socket({ fd: FD, readable: true, writable: false });
  const decoder = new StringDecoder('utf8');
  let rest = '';
  stream.on('data', (bytes: Buffer) => {
    const lines = (rest + decoder.write(bytes)).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) receive(JSON.parse(line) as ToScript);
  });
  stream.on('error', () => exit(1));
  stream.on('close', () => exit(0));
  return (message) => writeAll(Buffer.from(`${JSON.stringify(message)}\n`));
}

/** User code may put its own in the place of process.exit. */
const exit = process.exit.bind(process);
const clock = new Int32Array(new SharedArrayBuffer(4));

function writeAll(bytes: Buffer): void {
  let done = 0;
  while (done < bytes.length) {
    try {
      done += writeSync(FD, bytes, done);
    } catch (error) {
      // The pipe is full. Anything else: the agent is gone, or user code has closed the line to it.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') exit(1);
      Atomics.wait(clock, 0, 0, WAIT_MS);
    }
  }
}
