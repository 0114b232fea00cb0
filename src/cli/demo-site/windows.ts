import { bare, html, page } from './html.ts';
import type { Route } from './visit.ts';

/** What happens in more than one window: frames, popups, tabs, dialogs. */
export function windowRoutes(): Route[] {
  return [
    ['GET', '/payment', () => PAYMENT],
    ['GET', '/payment/form', () => PAYMENT_FORM],
    ['GET', '/dialogs', () => DIALOGS],
    ['GET', '/windows', () => WINDOWS],
    ['GET', '/terms', () => TERMS],
  ];
}

const PAYMENT = page(
  'Payment',
  html`<iframe title="Card payment" src="/payment/form"></iframe>
    <p role="status" id="state">Not paid yet.</p>
    <script>
      addEventListener('message', ({ origin, data }) => {
        if (origin === location.origin && data.paid) {
          document.getElementById('state').textContent = 'Paid with the card that ends in ' + data.paid + '.';
        }
      });
    </script>`,
);

const PAYMENT_FORM = bare(
  'Card payment',
  html`<form>
      <label>Card number <input name="card" inputmode="numeric" autocomplete="off" required /></label>
      <label>Expires <input name="expires" placeholder="MM/YY" autocomplete="off" required /></label>
      <p role="alert" class="error"></p>
      <button>Pay</button>
    </form>
    <script>
      const form = document.querySelector('form');
      form.addEventListener('submit', (event) => {
        event.preventDefault();
        const digits = form.elements.card.value.replaceAll(' ', '');
        const isCard = digits.length === 16 && !isNaN(digits);
        document.querySelector('[role=alert]').textContent = isCard ? '' : 'A card number has 16 digits.';
        if (isCard) parent.postMessage({ paid: digits.slice(-4) }, location.origin);
      });
    </script>`,
);

const DIALOGS = page(
  'Dialogs',
  html`<button type="button" id="alert">Say hello</button>
    <button type="button" id="confirm">Empty the cart</button>
    <button type="button" id="prompt">Name the boat</button>
    <p role="status" id="said"></p>
    <script>
      const on = (id, act) =>
        document.getElementById(id).addEventListener('click', () => {
          document.getElementById('said').textContent = act();
        });
      on('alert', () => {
        alert('Welcome on board!');
        return 'Hello said.';
      });
      on('confirm', () => (confirm('Empty the cart?') ? 'The cart is empty.' : 'The cart stays full.'));
      on('prompt', () => {
        const name = prompt('What is her name?', 'Albatross');
        return name === null ? 'The boat has no name.' : 'The boat is called ' + name + '.';
      });
    </script>`,
);

const WINDOWS = page(
  'Windows',
  html`<p><a href="/terms" target="_blank" rel="opener">Terms in a new tab</a></p>
    <button type="button">Terms in a popup</button>
    <p role="status" id="state">Terms not accepted.</p>
    <script>
      document.querySelector('button').addEventListener('click', () => {
        open('/terms', 'terms', 'popup,width=400,height=300');
      });
      addEventListener('message', ({ origin, data }) => {
        if (origin === location.origin && data === 'accepted') {
          document.getElementById('state').textContent = 'Terms accepted.';
        }
      });
    </script>`,
);

const TERMS = bare(
  'Terms',
  html`<h1>Terms</h1>
    <p>Nothing here is for sale.</p>
    <button type="button">Accept</button>
    <script>
      document.querySelector('button').addEventListener('click', () => {
        opener?.postMessage('accepted', location.origin);
        document.querySelector('h1').textContent = 'Thank you';
        setTimeout(close, 300);
      });
    </script>`,
);
