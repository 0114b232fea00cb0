const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
);
const DAYS = 'Sunday Monday Tuesday Wednesday Thursday Friday Saturday'.split(' ');

/** Longest first, so that `MMMM` is not read as two `MM`; `[text]` stands for itself. */
const TOKEN =
  /\[([^\]]*)\]|YYYYYY|YYYYY|YYYY|YY|Y|Qo|Q|MMMM|MMM|Mo|MM|M|DDDD|DDDo|DDD|Do|DD|D|dddd|ddd|do|dd|d|E|e|wo|ww|w|Wo|WW|W|GGGGG|GGGG|GG|ggggg|gggg|gg|HH|H|hh|h|kk|k|Hmmss|Hmm|mm|m|ss|s|S{1,9}|A|a|ZZ|Z|zz|z|X|x|LTS|LT|LLLL|LLL|LL|L|llll|lll|ll|l/g;

/** Local shorthands of the English locale. */
const SHORTHANDS: Readonly<Record<string, string>> = {
  LT: 'h:mm A',
  LTS: 'h:mm:ss A',
  L: 'MM/DD/YYYY',
  LL: 'MMMM D, YYYY',
  LLL: 'MMMM D, YYYY h:mm A',
  LLLL: 'dddd, MMMM D, YYYY h:mm A',
  l: 'M/D/YYYY',
  ll: 'MMM D, YYYY',
  lll: 'MMM D, YYYY h:mm A',
  llll: 'ddd, MMM D, YYYY h:mm A',
};

const DAY_MS = 86_400_000;
const pad = (value: number, width: number): string => String(value).padStart(width, '0');

/** `date` in UTC by a format in moment's tokens, English names. What is no token stays. */
export function formatMoment(date: Date, format: string): string {
  return format.replace(TOKEN, (token, literal: string | undefined) => literal ?? tokenText(date, token));
}

function tokenText(date: Date, token: string): string {
  const shorthand = SHORTHANDS[token];
  if (shorthand !== undefined) return formatMoment(date, shorthand);
  if (/^S+$/.test(token)) return pad(date.getUTCMilliseconds(), 3).padEnd(9, '0').slice(0, token.length);
  return dateText(date, token) ?? weekText(date, token) ?? timeText(date, token) ?? token;
}

function dateText(date: Date, token: string): string | undefined {
  const year = date.getUTCFullYear();
  const month = date.getUTCMonth();
  const day = date.getUTCDate();
  const quarter = Math.floor(month / 3) + 1;
  switch (token) {
    case 'YYYYYY':
      return `+${pad(year, 6)}`;
    case 'YYYYY':
      return pad(year, 5);
    case 'YYYY':
      return pad(year, 4);
    case 'Y':
      return String(year);
    case 'YY':
      return pad(year % 100, 2);
    case 'Q':
      return String(quarter);
    case 'Qo':
      return ordinal(quarter);
    case 'MMMM':
      return MONTHS[month];
    case 'MMM':
      return MONTHS[month]?.slice(0, 3);
    case 'MM':
      return pad(month + 1, 2);
    case 'M':
      return String(month + 1);
    case 'Mo':
      return ordinal(month + 1);
    case 'DDDD':
      return pad(dayOfYear(date), 3);
    case 'DDD':
      return String(dayOfYear(date));
    case 'DDDo':
      return ordinal(dayOfYear(date));
    case 'DD':
      return pad(day, 2);
    case 'D':
      return String(day);
    case 'Do':
      return ordinal(day);
    default:
      return undefined;
  }
}

function weekText(date: Date, token: string): string | undefined {
  const weekday = date.getUTCDay();
  const name = DAYS[weekday] ?? '';
  // ISO weeks start on Monday and belong to the year of their Thursday; English ones start on Sunday
  // and the first contains January 1st, so they belong to the year of their Saturday.
  const iso = weekOf(date, (weekday + 6) % 7, 3);
  const local = weekOf(date, weekday, 6);
  switch (token) {
    case 'dddd':
      return name;
    case 'ddd':
      return name.slice(0, 3);
    case 'dd':
      return name.slice(0, 2);
    case 'd':
    case 'e':
      return String(weekday);
    case 'do':
      return ordinal(weekday);
    case 'E':
      return String(weekday === 0 ? 7 : weekday);
    case 'W':
      return String(iso.week);
    case 'WW':
      return pad(iso.week, 2);
    case 'Wo':
      return ordinal(iso.week);
    case 'GG':
      return pad(iso.year % 100, 2);
    case 'GGGG':
    case 'GGGGG':
      return pad(iso.year, token.length);
    case 'w':
      return String(local.week);
    case 'ww':
      return pad(local.week, 2);
    case 'wo':
      return ordinal(local.week);
    case 'gg':
      return pad(local.year % 100, 2);
    case 'gggg':
    case 'ggggg':
      return pad(local.year, token.length);
    default:
      return undefined;
  }
}

function timeText(date: Date, token: string): string | undefined {
  const hours = date.getUTCHours();
  const minutes = pad(date.getUTCMinutes(), 2);
  const seconds = pad(date.getUTCSeconds(), 2);
  switch (token) {
    case 'HH':
      return pad(hours, 2);
    case 'H':
      return String(hours);
    case 'hh':
      return pad(hours % 12 || 12, 2);
    case 'h':
      return String(hours % 12 || 12);
    case 'kk':
      return pad(hours || 24, 2);
    case 'k':
      return String(hours || 24);
    case 'Hmm':
      return `${hours}${minutes}`;
    case 'Hmmss':
      return `${hours}${minutes}${seconds}`;
    case 'mm':
      return minutes;
    case 'm':
      return String(date.getUTCMinutes());
    case 'ss':
      return seconds;
    case 's':
      return String(date.getUTCSeconds());
    case 'A':
      return hours < 12 ? 'AM' : 'PM';
    case 'a':
      return hours < 12 ? 'am' : 'pm';
    case 'Z':
      return '+00:00';
    case 'ZZ':
      return '+0000';
    case 'z':
    case 'zz':
      return 'UTC';
    case 'X':
      return String(Math.floor(date.getTime() / 1000));
    case 'x':
      return String(date.getTime());
    default:
      return undefined;
  }
}

function dayOfYear(date: Date): number {
  const midnight = Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate());
  return (midnight - Date.UTC(date.getUTCFullYear(), 0, 1)) / DAY_MS + 1;
}

/**
 * @param fromFirst days since the first day of the week
 * @param decisive which day of the week, counted from its first, says whose year the week is
 */
function weekOf(date: Date, fromFirst: number, decisive: number): { year: number; week: number } {
  const day = new Date(date.getTime() + (decisive - fromFirst) * DAY_MS);
  return { year: day.getUTCFullYear(), week: Math.floor((dayOfYear(day) - 1) / 7) + 1 };
}

function ordinal(value: number): string {
  const teen = value % 100 >= 11 && value % 100 <= 13;
  return `${value}${teen ? 'th' : (['th', 'st', 'nd', 'rd'][value % 10] ?? 'th')}`;
}

const UNITS = new Map<string, { months?: number; ms?: number }>(
  Object.entries({
    ms: { ms: 1 },
    millisecond: { ms: 1 },
    s: { ms: 1000 },
    sec: { ms: 1000 },
    second: { ms: 1000 },
    min: { ms: 60_000 },
    minute: { ms: 60_000 },
    h: { ms: 3_600_000 },
    hr: { ms: 3_600_000 },
    hour: { ms: 3_600_000 },
    d: { ms: DAY_MS },
    day: { ms: DAY_MS },
    w: { ms: 7 * DAY_MS },
    week: { ms: 7 * DAY_MS },
    month: { months: 1 },
    quarter: { months: 3 },
    y: { months: 12 },
    year: { months: 12 },
  }),
);

/** A moment in words (`now`, `yesterday`, `2 days ago`, `in an hour`, `next week`) or as an ISO date; null otherwise. */
export function momentOf(text: string, now: Date): Date | null {
  const words = text.trim().toLowerCase();
  if (words === 'now' || words === 'today') return now;
  if (words === 'yesterday') return shifted(now, -1, 'day');
  if (words === 'tomorrow') return shifted(now, 1, 'day');
  const step = /^(last|next) ([a-z]+)$/.exec(words);
  if (step) return shifted(now, step[1] === 'last' ? -1 : 1, step[2] ?? '');
  const ago = /^(\d+|an?) ?([a-z]+) (ago|before now|from now|hence)$/.exec(words);
  if (ago) return shifted(now, amount(ago[1]) * (/ago|before/.test(ago[3] ?? '') ? -1 : 1), ago[2] ?? '');
  const ahead = /^in (\d+|an?) ?([a-z]+)$/.exec(words);
  if (ahead) return shifted(now, amount(ahead[1]), ahead[2] ?? '');
  const time = /^\d{4}-\d{2}/.test(words) ? Date.parse(text.trim()) : Number.NaN;
  return Number.isNaN(time) ? null : new Date(time);
}

const amount = (text: string | undefined): number => (/^an?$/.test(text ?? '') ? 1 : Number(text));

function shifted(from: Date, count: number, unitName: string): Date | null {
  const unit = UNITS.get(unitName) ?? UNITS.get(unitName.replace(/s$/, ''));
  if (unit === undefined) return null;
  const date = new Date(from.getTime() + count * (unit.ms ?? 0));
  const months = date.getUTCFullYear() * 12 + date.getUTCMonth() + count * (unit.months ?? 0);
  // The 31st minus one month is the last day of the shorter month, not the 1st of the next.
  const lastDay = new Date(Date.UTC(Math.floor(months / 12), (months % 12) + 1, 0)).getUTCDate();
  date.setUTCFullYear(Math.floor(months / 12), months % 12, Math.min(date.getUTCDate(), lastDay));
  return Number.isNaN(date.getTime()) ? null : date;
}
