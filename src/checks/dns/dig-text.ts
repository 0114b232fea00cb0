import {
  className,
  opcodeName,
  rcodeName,
  rdataText,
  typeName,
  type DnsMessage,
  type DnsRecord,
  type Question,
  type Reply,
} from '../dns-wire/index.ts';

const TAB = 8;
/** Columns where the parts of a record begin, as long as the part before leaves room. */
const COLUMN = { ttl: 24, class: 32, type: 40, data: 48 };

/** A line under construction, with the column it has reached. */
class Line {
  text = '';
  #column = 0;

  add(part: string): this {
    this.text += part;
    this.#column += part.length;
    return this;
  }

  /** Tabs, then spaces, up to `column`; a single blank when it is already passed. */
  to(column: number): this {
    const target = Math.max(column, this.#column + 1);
    const tabs = Math.floor(target / TAB) - Math.floor(this.#column / TAB);
    const from = tabs > 0 ? Math.floor(target / TAB) * TAB : this.#column;
    this.text += '\t'.repeat(tabs) + ' '.repeat(target - from);
    this.#column = target;
    return this;
  }
}

/** A record as `dig +noall +answer` prints it. */
export function recordLine(bytes: Buffer, record: DnsRecord): string {
  const line = new Line().add(record.name).to(COLUMN.ttl).add(String(record.ttl));
  line.to(COLUMN.class).add(className(record.class)).to(COLUMN.type).add(typeName(record.type));
  return line.to(COLUMN.data).add(rdataText(bytes, record)).text;
}

/** The semicolon makes it a comment and takes no column. */
function questionLine(question: Question): string {
  const line = new Line().add(question.name).to(COLUMN.class).add(className(question.class));
  return `;${line.to(COLUMN.type).add(typeName(question.type)).text}`;
}

/** Answer of a server as text in the form of `dig`, so that patterns written for its output work. */
export function digText(
  reply: Reply,
  about: { queryTimeMs: number; serverName: string; when: Date },
): string {
  const { message, server, protocol } = reply;
  const sections = [
    header(message),
    message.edns === null ? '' : optSection(message.edns),
    section('QUESTION', message.questions.map(questionLine)),
    ...(['answers', 'authorities', 'additionals'] as const).map((part) =>
      section(
        TITLES[part],
        message[part].map((record) => recordLine(message.bytes, record)),
      ),
    ),
    [
      `;; Query time: ${Math.round(about.queryTimeMs)} msec`,
      `;; SERVER: ${server.address}#${server.port}(${about.serverName}) (${protocol})`,
      `;; WHEN: ${whenText(about.when)}`,
      `;; MSG SIZE  rcvd: ${message.bytes.length}`,
    ].join('\n'),
  ];
  // The pseudo-section of EDNS runs on into the question without a blank line.
  return sections
    .filter((text) => text !== '')
    .map((text) => (text.startsWith(';; OPT') ? `${text}\n` : `${text}\n\n`))
    .join('')
    .trimEnd();
}

const TITLES = { answers: 'ANSWER', authorities: 'AUTHORITY', additionals: 'ADDITIONAL' } as const;

function header(message: DnsMessage): string {
  const { flags, questions, answers, authorities, additionals, edns } = message;
  const set = (['qr', 'aa', 'tc', 'rd', 'ra', 'ad', 'cd'] as const).filter((flag) => flags[flag]);
  const additional = additionals.length + (edns === null ? 0 : 1);
  const lines = [
    ';; Got answer:',
    `;; ->>HEADER<<- opcode: ${opcodeName(message.opcode)}, status: ${rcodeName(message.rcode)}, id: ${message.id}`,
    `;; flags: ${set.join(' ')}; QUERY: ${questions.length}, ANSWER: ${answers.length}, AUTHORITY: ${authorities.length}, ADDITIONAL: ${additional}`,
  ];
  if (flags.rd && !flags.ra) lines.push(';; WARNING: recursion requested but not available');
  return lines.join('\n');
}

const optSection = (edns: NonNullable<DnsMessage['edns']>): string =>
  `;; OPT PSEUDOSECTION:\n; EDNS: version: ${edns.version}, flags:${edns.dnssecOk ? ' do' : ''}; udp: ${edns.udpSize}`;

const section = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : [`;; ${title} SECTION:`, ...lines].join('\n');

/** `Thu Nov 20 09:05:01 UTC 2025`. */
function whenText(when: Date): string {
  const [weekday = '', day, month, year, time] = when.toUTCString().split(' ');
  return `${weekday.replace(',', '')} ${month} ${day} ${time} UTC ${year}`;
}
