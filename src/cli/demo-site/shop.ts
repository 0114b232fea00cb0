import { newId } from '../../kit/ids.ts';
import { CATALOG, CATEGORIES, findProduct, options, priced } from './catalog.ts';
import { html, page, type Html } from './html.ts';
import { Recent } from './recent.ts';
import type { Session, Sessions } from './sessions.ts';
import { formOf, redirect, Refusal, type Answer, type Route } from './visit.ts';

const MOST_OF_ONE = 99;

/** What a customer does: look, fill the cart, pay. */
export function shopRoutes(sessions: Sessions): Route[] {
  const orders = new Recent<{ id: string; name: string; cents: number }>(100);
  return [
    ['GET', '/', () => productTable()],
    ['GET', '/products/:id', ({ params }) => productPage(params['id']!)],
    ['GET', '/cart', (visit) => cartPage(sessions.of(visit))],
    [
      'POST',
      '/cart',
      (visit) => {
        const session = sessions.of(visit);
        putIntoCart(session, formOf(visit));
        return redirect('/cart', sessions.keep(session));
      },
    ],
    ['GET', '/checkout', (visit) => checkoutPage(sessions.of(visit), new URLSearchParams(), {})],
    [
      'POST',
      '/checkout',
      (visit) => {
        const [session, form] = [sessions.of(visit), formOf(visit)];
        const problems = problemsOf(form);
        if (session.cart.size === 0 || Object.keys(problems).length > 0) {
          return checkoutPage(session, form, problems);
        }
        const id = newId();
        orders.set(id, { id, name: form.get('name') ?? '', cents: totalOf(session) });
        session.cart.clear();
        return redirect(`/orders/${id}`, sessions.keep(session));
      },
    ],
    ['GET', '/orders/:id', ({ params }) => orderPage(orders.get(params['id']!))],
  ];
}

/** Sorted, filtered and cut into pages by the page's own script, as many shops do. */
function productTable(): Answer {
  const rows = CATALOG.map(
    ({ id, name, category, cents, stock }) =>
      html`<tr data-name="${name}" data-category="${category}" data-price="${cents}" data-stock="${stock}">
        <td><a href="/products/${id}">${name}</a></td>
        <td>${category}</td>
        <td>${priced(cents)}</td>
        <td>${stock}</td>
      </tr> `,
  );
  const columns = ['Name', 'Category', 'Price', 'Stock'].map(
    (name) => html`<th scope="col"><button type="button">${name}</button></th> `,
  );
  return page(
    'Products',
    html`<label>Search <input type="search" id="search" /></label>
      <label
        >Category
        <select id="category">
          <option value="">All</option>
          ${options(CATEGORIES)}
        </select></label
      >
      <p role="status" id="count"></p>
      <table>
        <caption>
          What we sell
        </caption>
        <thead>
          <tr>
            ${columns}
          </tr>
        </thead>
        <tbody>
          ${rows}
        </tbody>
      </table>
      <nav aria-label="Pages of products">
        <button type="button" id="previous">Previous</button>
        <span id="position" data-testid="position"></span>
        <button type="button" id="next">Next</button>
      </nav>
      ${TABLE_SCRIPT}`,
  );
}

const TABLE_SCRIPT = html`<script>
  const PER_PAGE = 5;
  const body = document.querySelector('tbody');
  const rows = [...body.rows];
  const buttons = [...document.querySelectorAll('th button')];
  const find = (id) => document.getElementById(id);
  let pageNumber = 0;
  let sort = { key: '', factor: 1 };
  const compare = (a, b) => {
    const [left, right] = [a.dataset[sort.key], b.dataset[sort.key]];
    const isNumber = sort.key === 'price' || sort.key === 'stock';
    return sort.factor * (isNumber ? left - right : left.localeCompare(right, 'en'));
  };
  function show() {
    const wanted = find('search').value.trim().toLowerCase();
    const category = find('category').value;
    const found = rows.filter(
      ({ dataset }) =>
        dataset.name.toLowerCase().includes(wanted) && (category === '' || dataset.category === category),
    );
    if (sort.key !== '') found.sort(compare);
    const pages = Math.max(1, Math.ceil(found.length / PER_PAGE));
    pageNumber = Math.min(pageNumber, pages - 1);
    body.replaceChildren(...found.slice(pageNumber * PER_PAGE, (pageNumber + 1) * PER_PAGE));
    find('count').textContent = found.length + (found.length === 1 ? ' product' : ' products');
    find('position').textContent = 'Page ' + (pageNumber + 1) + ' of ' + pages;
    find('previous').disabled = pageNumber === 0;
    find('next').disabled = pageNumber === pages - 1;
  }
  for (const button of buttons) {
    button.addEventListener('click', () => {
      const key = button.textContent.toLowerCase();
      sort = { key, factor: sort.key === key ? -sort.factor : 1 };
      for (const each of buttons) each.parentElement.removeAttribute('aria-sort');
      button.parentElement.setAttribute('aria-sort', sort.factor === 1 ? 'ascending' : 'descending');
      show();
    });
  }
  for (const id of ['search', 'category']) {
    find(id).addEventListener('input', () => {
      pageNumber = 0;
      show();
    });
  }
  find('previous').addEventListener('click', () => {
    pageNumber -= 1;
    show();
  });
  find('next').addEventListener('click', () => {
    pageNumber += 1;
    show();
  });
  show();
</script>`;

function productPage(id: string): Answer {
  const product = findProduct(id);
  if (product === undefined) throw new Refusal(404, 'We do not sell this.');
  const { name, category, cents, stock } = product;
  const buy = html`<form method="post" action="/cart">
    <input type="hidden" name="product" value="${id}" />
    <label>Quantity <input type="number" name="count" value="1" min="1" max="${MOST_OF_ONE}" /></label>
    <button>Add to cart</button>
  </form>`;
  return page(
    name,
    html`<p data-testid="price">${priced(cents)}</p>
      <p>In ${category}, ${stock} in stock</p>
      ${stock > 0 ? buy : html`<p>Sold out</p>`}`,
  );
}

/** Adds; a count of 0 takes the product out. */
function putIntoCart({ cart }: Session, form: URLSearchParams): void {
  const product = findProduct(form.get('product') ?? undefined);
  const given = form.get('count') ?? '';
  const count = Number(given);
  if (product === undefined || product.stock === 0) throw new Refusal(400, 'We do not sell this.');
  if (!/^\d{1,2}$/.test(given)) {
    throw new Refusal(400, `The quantity must be from 0 to ${MOST_OF_ONE}.`);
  }
  if (count === 0) cart.delete(product.id);
  else cart.set(product.id, Math.min((cart.get(product.id) ?? 0) + count, MOST_OF_ONE));
}

const totalOf = ({ cart }: Session): number =>
  [...cart].reduce((sum, [id, count]) => sum + (findProduct(id)?.cents ?? 0) * count, 0);

function cartPage(session: Session): Answer {
  if (session.cart.size === 0) return page('Cart', html`<p>Your cart is empty.</p>`);
  const lines = [...session.cart].map(([id, count]) => cartLine(id, count));
  return page(
    'Cart',
    html`<table>
        <thead>
          <tr>
            <th scope="col">Product</th>
            <th scope="col">Quantity</th>
            <th scope="col">Sum</th>
            <td></td>
          </tr>
        </thead>
        <tbody>
          ${lines}
        </tbody>
      </table>
      <p>Total: <strong data-testid="total">${priced(totalOf(session))}</strong></p>
      <p><a href="/checkout">Check out</a></p>`,
  );
}

function cartLine(id: string, count: number): Html {
  const { name, cents } = findProduct(id)!;
  return html`<tr>
    <td>${name}</td>
    <td>${count}</td>
    <td>${priced(cents * count)}</td>
    <td>
      <form method="post" action="/cart">
        <input type="hidden" name="product" value="${id}" />
        <input type="hidden" name="count" value="0" />
        <button aria-label="Remove ${name}">Remove</button>
      </form>
    </td>
  </tr> `;
}

/** Fields of the checkout: what each must look like, and what is said when it does not. */
const FIELDS = [
  { key: 'name', label: 'Full name', pattern: /\S/, problem: 'Tell us your name.' },
  { key: 'email', label: 'Email', pattern: /^[^\s@]+@[^\s@]+$/, problem: 'This is no email address.' },
  { key: 'street', label: 'Street', pattern: /\S/, problem: 'Tell us your street.' },
  { key: 'postcode', label: 'Postcode', pattern: /^\d{5}$/, problem: 'A postcode has five digits.' },
] as const;

type Problems = Record<string, string>;

function problemsOf(form: URLSearchParams): Problems {
  const wrong = FIELDS.filter(({ key, pattern }) => !pattern.test(form.get(key) ?? ''));
  const problems: Problems = Object.fromEntries(wrong.map(({ key, problem }) => [key, problem]));
  return form.has('terms') ? problems : { ...problems, terms: 'Please accept the terms.' };
}

function checkoutPage(session: Session, form: URLSearchParams, problems: Problems): Answer {
  if (session.cart.size === 0) return page('Checkout', html`<p>Your cart is empty.</p>`);
  const count = Object.keys(problems).length;
  const summary = html`<p role="alert">Please correct ${count} ${count === 1 ? 'field' : 'fields'}.</p>`;
  const fields = FIELDS.map((each) => field(each, form, problems));
  return page(
    'Checkout',
    html`${count > 0 ? summary : undefined}
      <p>Total: <strong>${priced(totalOf(session))}</strong></p>
      <form method="post" action="/checkout" novalidate>
        ${fields}
        <label><input type="checkbox" name="terms" /> I accept the terms</label>
        ${problemOf('terms', problems)}
        <button>Place order</button>
      </form>`,
    count > 0 ? 422 : 200,
  );
}

function field({ key, label }: (typeof FIELDS)[number], form: URLSearchParams, problems: Problems): Html {
  const isWrong = problems[key] !== undefined;
  const marks = isWrong ? html`aria-invalid="true" aria-describedby="${key}-problem"` : undefined;
  return html`<label for="${key}">${label}</label>
    <input id="${key}" name="${key}" value="${form.get(key) ?? ''}" ${marks} />
    ${problemOf(key, problems)} `;
}

const problemOf = (key: string, problems: Problems): Html | undefined =>
  problems[key] === undefined
    ? undefined
    : html`<span class="error" id="${key}-problem">${problems[key]}</span>`;

function orderPage(order: { id: string; name: string; cents: number } | undefined): Answer {
  if (order === undefined) throw new Refusal(404, 'There is no such order.');
  return page(
    'Order placed',
    html`<p role="status">Thank you, ${order.name}. We pack your order of ${priced(order.cents)}.</p>
      <p>Order number: <code data-testid="order">${order.id}</code></p>`,
  );
}
