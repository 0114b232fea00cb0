import { Socket } from 'node:net';
import { createInterface } from 'node:readline';
import type { Answered, Asked } from '../protocol.ts';

/** The project is at fault: `message` says what to change. */
export class Problem extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Answers questions, several at a time, until the agent is gone; then the process ends, and its children with it. */
export function serve(answer: (asked: Asked) => Promise<unknown>): void {
  const channel = new Socket({ fd: 3, readable: true, writable: true });
  channel.on('error', () => process.exit(1));
  channel.on('close', () => process.exit(0));
  const say = (answered: Answered): void => void channel.write(`${JSON.stringify(answered)}\n`);
  createInterface({ input: channel }).on('line', (line) => {
    const asked = JSON.parse(line) as Asked;
    const { n } = asked;
    answer(asked).then(
      (value) => say({ n, value: value ?? null }),
      (error: unknown) =>
        error instanceof Problem
          ? say({ n, problem: { code: error.code, message: error.message } })
          : say({ n, fault: error instanceof Error ? error.message : String(error) }),
    );
  });
}
