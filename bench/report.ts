export interface Row {
  name: string;
  ours: string;
  peer: string;
  /** ours / peer, both measured in this run. */
  ratio?: number;
  goal?: { atMost: number } | { atLeast: number };
}

/** Prints the rows as a Markdown table; a goal that is missed says so. */
export function printRows(rows: readonly Row[]): void {
  const cells = rows.map((row) => [
    row.name,
    row.ours,
    row.peer,
    row.ratio === undefined ? '–' : row.ratio.toFixed(2),
    goalText(row),
  ]);
  const head = ['what', 'vedette', 'peer', 'ratio', 'goal'];
  const widths = head.map((title, i) => Math.max(title.length, ...cells.map((row) => row[i]!.length)));
  const line = (row: readonly string[]): string =>
    `| ${row.map((cell, i) => cell.padEnd(widths[i]!)).join(' | ')} |`;
  console.log([line(head), line(widths.map((width) => '-'.repeat(width))), ...cells.map(line)].join('\n'));
}

function goalText({ ratio, goal }: Row): string {
  if (goal === undefined) return '';
  const met = ratio !== undefined && ('atMost' in goal ? ratio <= goal.atMost : ratio >= goal.atLeast);
  const bound = 'atMost' in goal ? `≤ ${goal.atMost}` : `≥ ${goal.atLeast}`;
  return ratio === undefined ? bound : `${bound} ${met ? 'met' : 'MISSED'}`;
}
