/**
 * Prints what several runs say. Of a suite in one piece everything as it comes; of parts whole lines, each with
 * the number of its part before it.
 */
export function printer(write: (text: string) => void): (shard: number | null, text: string) => void {
  const begun = new Map<number, string>();
  return (shard, text) => {
    if (shard === null) return write(text);
    const lines = ((begun.get(shard) ?? '') + text).split('\n');
    begun.set(shard, lines.pop() ?? '');
    for (const line of lines) write(`[${shard}] ${line}\n`);
  };
}
