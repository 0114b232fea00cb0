import { bare, html, page } from './html.ts';
import type { Route } from './visit.ts';

/** What depends on network, browser and machine, and what goes wrong there. */
export function surroundingsRoutes(): Route[] {
  return [
    ['GET', '/surroundings', () => SURROUNDINGS],
    ['GET', '/deals', () => DEALS],
    ['GET', '/broken', () => BROKEN],
    ['GET', '/flag', () => FLAG],
  ];
}

const SURROUNDINGS = page(
  'Surroundings',
  html`<dl>
      <dt>Theme</dt>
      <dd data-testid="theme"></dd>
      <dt>Time zone</dt>
      <dd data-testid="zone"></dd>
      <dt>Language</dt>
      <dd data-testid="language"></dd>
      <dt>Window</dt>
      <dd data-testid="window"></dd>
    </dl>
    <button type="button">Where am I?</button>
    <p role="status"></p>
    <script>
      const show = (id, text) => (document.querySelector('[data-testid=' + id + ']').textContent = text);
      const dark = matchMedia('(prefers-color-scheme: dark)');
      const showTheme = () => show('theme', dark.matches ? 'dark' : 'light');
      dark.addEventListener('change', showTheme);
      showTheme();
      show('zone', Intl.DateTimeFormat().resolvedOptions().timeZone);
      show('language', navigator.language);
      show('window', innerWidth + ' x ' + innerHeight);
      const place = document.querySelector('[role=status]');
      document.querySelector('button').addEventListener('click', () => {
        navigator.geolocation.getCurrentPosition(
          ({ coords }) => {
            place.textContent = coords.latitude.toFixed(3) + ', ' + coords.longitude.toFixed(3);
          },
          () => (place.textContent = 'Nobody knows.'),
        );
      });
    </script>`,
);

const DEALS = page(
  'Deals',
  html`<button type="button">Reload</button>
    <ul aria-label="Deals"></ul>
    <p role="status"></p>
    <script>
      const list = document.querySelector('ul[aria-label=Deals]');
      const state = document.querySelector('[role=status]');
      async function load() {
        state.textContent = 'Loading…';
        list.replaceChildren();
        try {
          const response = await fetch('/api/deals');
          if (!response.ok) throw new Error('answer ' + response.status);
          const { deals } = await response.json();
          for (const { name, cents } of deals) {
            const item = document.createElement('li');
            item.textContent = name + ' for ' + (cents / 100).toFixed(2) + ' €';
            list.append(item);
          }
          state.textContent = deals.length === 0 ? 'No deals today.' : '';
        } catch {
          state.textContent = 'The deals could not be loaded.';
        }
      }
      document.querySelector('button').addEventListener('click', load);
      void load();
    </script>`,
);

const BROKEN = page(
  'Broken',
  html`<p>This page has a picture that is missing, an error on its console and a script that fails.</p>
    <img src="/missing.png" alt="Missing" width="40" height="40" />
    <script>
      console.error('the tide table is out of date');
      setTimeout(() => {
        throw new Error('the anchor dragged');
      });
    </script>`,
);

/** Boxes on whole pixels without text: every browser paints them alike. */
const FLAG = bare(
  'Flag',
  html`<style>
      .flag {
        position: relative;
        width: 240px;
        height: 160px;
        background: #0b6179;
      }
      .flag div {
        position: absolute;
        background: #ffd166;
      }
      .upright {
        left: 70px;
        top: 0;
        width: 40px;
        height: 160px;
      }
      .across {
        left: 0;
        top: 60px;
        width: 240px;
        height: 40px;
      }
    </style>
    <div class="flag" role="img" aria-label="Flag of the harbour">
      <div class="upright"></div>
      <div class="across"></div>
    </div>`,
);
