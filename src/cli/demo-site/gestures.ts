import { html, page } from './html.ts';
import type { Route } from './visit.ts';

/** What is done with mouse, keyboard and wheel. */
export function gestureRoutes(): Route[] {
  return [
    ['GET', '/board', () => BOARD],
    ['GET', '/keyboard', () => KEYBOARD],
    ['GET', '/logbook', () => LOGBOOK],
  ];
}

const BOARD = page(
  'Board',
  html`<p>Drag what is done to the right.</p>
    <div class="columns">
      <section aria-label="To do">
        <p draggable="true" id="sails">Mend the sails</p>
        <p draggable="true" id="deck">Scrub the deck</p>
        <p draggable="true" id="brass">Polish the brass</p>
      </section>
      <section aria-label="Done"></section>
    </div>
    <p role="status"></p>
    <script>
      for (const card of document.querySelectorAll('[draggable]')) {
        card.addEventListener('dragstart', (event) => event.dataTransfer.setData('text/plain', card.id));
      }
      for (const column of document.querySelectorAll('section')) {
        column.addEventListener('dragover', (event) => event.preventDefault());
        column.addEventListener('drop', (event) => {
          event.preventDefault();
          const card = document.getElementById(event.dataTransfer.getData('text/plain'));
          if (card === null) return;
          column.append(card);
          document.querySelector('[role=status]').textContent =
            card.textContent + ': ' + column.getAttribute('aria-label').toLowerCase();
        });
      }
    </script>`,
);

const KEYBOARD = page(
  'Keyboard',
  html`<p>Press <kbd>/</kbd> to search, <kbd>Ctrl</kbd>+<kbd>K</kbd> for help, <kbd>Escape</kbd> to leave.</p>
    <label>Search <input type="search" /></label>
    <dialog aria-label="Help"><p>You are helped.</p></dialog>
    <p>Last key: <output data-testid="key">none</output></p>
    <script>
      const search = document.querySelector('input');
      const help = document.querySelector('dialog');
      addEventListener('keydown', (event) => {
        document.querySelector('output').textContent = event.key;
        if (event.key === '/' && document.activeElement !== search) {
          event.preventDefault();
          search.focus();
        } else if (event.key === 'k' && event.ctrlKey) {
          event.preventDefault();
          if (!help.open) help.showModal();
        } else if (event.key === 'Escape') {
          search.blur();
        }
      });
    </script>`,
);

const LOGBOOK = page(
  'Logbook',
  html`<ol aria-label="Entries"></ol>
    <p role="status" id="end">More below.</p>
    <style>
      ol li {
        min-height: 5rem;
      }
    </style>
    <script>
      const list = document.querySelector('ol');
      const end = document.getElementById('end');
      let next = 0;
      let isLoading = false;
      const watch = new IntersectionObserver(load, { rootMargin: '200px' });
      async function load([{ isIntersecting }]) {
        if (!isIntersecting || isLoading || next === null) return;
        isLoading = true;
        const response = await fetch('/api/stories?from=' + next);
        const found = await response.json();
        for (const story of found.stories) {
          list.append(Object.assign(document.createElement('li'), { textContent: story }));
        }
        next = found.next;
        isLoading = false;
        if (next === null) end.textContent = 'That was all.';
        // Tells again whether the end is in sight, also when it never left it.
        watch.unobserve(end);
        watch.observe(end);
      }
      watch.observe(end);
    </script>`,
);
