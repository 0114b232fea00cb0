/** One line of a comparison: what we said of a target, what the reference said, and whether they agree. */
interface Line {
  target: string;
  ours: string;
  reference: string;
  /** Empty when they agree. */
  disagreements: readonly string[];
  /** Why we differ on purpose. */
  deliberate: string | undefined;
}

/** Collects the rows of one comparison, in any order, and prints them as one table. */
export class ComparisonTable {
  readonly #title: string;
  readonly #lines: Line[] = [];

  constructor(title: string) {
    this.#title = title;
  }

  add(line: Line): void {
    this.#lines.push(line);
  }

  get size(): number {
    return this.#lines.length;
  }

  print(): void {
    const header = ['target', 'vedette', 'reference', 'agree'];
    const rows = this.#lines.map((line) => [line.target, line.ours, line.reference, verdictOn(line)]);
    const widths = header.map((head, i) =>
      Math.max(...[header, ...rows].map((row) => row[i]!.length), head.length),
    );
    const text = [header, widths.map((width) => '-'.repeat(width)), ...rows]
      .map((row) => `| ${row.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`)
      .join('\n');
    const agreed = this.#lines.filter((line) => line.disagreements.length === 0).length;
    console.log(`\n${this.#title}: ${agreed} of ${rows.length} agree\n${text}\n`);
  }
}

function verdictOn(line: Line): string {
  if (line.disagreements.length > 0) return `NO: ${line.disagreements.join('; ')}`;
  return line.deliberate === undefined ? 'yes' : `differs on purpose: ${line.deliberate}`;
}
