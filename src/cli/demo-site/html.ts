import type { Answer } from './visit.ts';

/** Markup that is safe to put into a page. */
export class Html {
  readonly text: string;
  constructor(markup: string) {
    this.text = markup;
  }
}

type Part = string | number | Html | readonly Html[] | undefined;

/** Markup with values between; texts are escaped, markup is kept. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.reduce((all, string, index) => `${all}${shown(parts[index - 1])}${string}`));
}

function shown(part: Part): string {
  if (part === undefined) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'object') return part.map((each) => each.text).join('');
  return String(part).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Address and name of the pages that every page leads to. */
const MENU: readonly (readonly [path: string, name: string])[] = [
  ['/', 'Products'],
  ['/cart', 'Cart'],
  ['/account', 'Account'],
  ['/deals', 'Deals'],
  ['/payment', 'Payment'],
  ['/files', 'Files'],
  ['/dialogs', 'Dialogs'],
  ['/windows', 'Windows'],
  ['/board', 'Board'],
  ['/keyboard', 'Keyboard'],
  ['/logbook', 'Logbook'],
  ['/surroundings', 'Surroundings'],
];

/** A page of the site: heading, menu, content. */
export function page(title: string, content: Html, status = 200): Answer {
  const menu = MENU.map(([path, name]) => html`<li><a href="${path}">${name}</a></li> `);
  return bare(
    title,
    html`<header>
        <p>Harbour Supplies, a demo of Vedette</p>
        <nav aria-label="Main">
          <ul>
            ${menu}
          </ul>
        </nav>
      </header>
      <main>
        <h1>${title}</h1>
        ${content}
      </main>`,
    status,
  );
}

/** A page without the frame of the site, for frames and second windows. */
export function bare(title: string, body: Html, status = 200): Answer {
  const { text } = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="/style.css" />
      </head>
      <body>
        ${body}
      </body>
    </html> `;
  return { status, headers: { 'content-type': 'text/html; charset=utf-8' }, body: text };
}

export const STYLE = `:root { color-scheme: light dark; --ink: #1b2a33; --paper: #fff; --line: #b7c4cb; --accent: #0b6179; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eef1; --paper: #10191e; --line: #41535d; --accent: #6fc7de; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 1rem/1.5 sans-serif; color: var(--ink); background: var(--paper); }
nav ul { display: flex; flex-wrap: wrap; gap: 0 1rem; padding: 0; list-style: none; }
a { color: var(--accent); }
table { border-collapse: collapse; }
th, td { padding: 0.25rem 1rem 0.25rem 0; border-bottom: 1px solid var(--line); text-align: left; }
label { display: block; margin-top: 0.5rem; }
input, select, button { font: inherit; padding: 0.2rem 0.5rem; }
button { margin: 0.5rem 0.5rem 0.5rem 0; }
.error { color: #b3261e; }
@media (prefers-color-scheme: dark) { .error { color: #ff8a80; } }
.columns { display: flex; gap: 1rem; }
.columns > section { flex: 1; min-height: 8rem; padding: 0.5rem; border: 1px solid var(--line); }
[draggable="true"] { padding: 0.25rem; border: 1px solid var(--line); cursor: grab; }
iframe { width: 100%; height: 16rem; border: 1px solid var(--line); }
`;
