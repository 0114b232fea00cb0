import { setTimeout as delay } from 'node:timers/promises';
import { newId, newSecret } from '../../kit/ids.ts';
import { isDemoUser } from './account.ts';
import { CATALOG, CATEGORIES, findProduct, type Product } from './catalog.ts';
import { Recent } from './recent.ts';
import { json, jsonOf, numberOf, Refusal, text, type Answer, type Route, type Visit } from './visit.ts';

const DEALS = ['lantern', 'rope', 'compass'];
const STORIES = 60;
const STORIES_PER_PAGE = 15;

/**
 * The shop for programs. Products of the catalogue stay as they are; those that somebody makes are drafts,
 * which the pages do not show, and may be changed and deleted.
 */
export function apiRoutes(): Route[] {
  return [...productRoutes(), ...orderRoutes(), ...answerRoutes()];
}

function productRoutes(): Route[] {
  const tokens = new Recent<true>(1000);
  const drafts = new Recent<Product>(100);
  const owned = (visit: Visit): string => {
    requireToken(visit, tokens);
    const id = visit.params['id']!;
    if (findProduct(id) !== undefined) throw new Refusal(403, 'The catalogue stays as it is.');
    if (drafts.get(id) === undefined) throw new Refusal(404, 'There is no such product.');
    return id;
  };
  const keep = (id: string, visit: Visit): Product => {
    const product = productOf(id, jsonOf(visit));
    drafts.set(id, product);
    return product;
  };
  return [
    [
      'POST',
      '/api/login',
      (visit) => {
        const { user, password } = jsonOf(visit);
        if (!isDemoUser(user, password)) throw new Refusal(401, 'User or password is wrong.');
        const token = newSecret('demo');
        tokens.set(token, true);
        return json(200, { token });
      },
    ],
    ['GET', '/api/products', (visit) => productList(visit, [...CATALOG, ...drafts.values()])],
    [
      'POST',
      '/api/products',
      (visit) => {
        requireToken(visit, tokens);
        const product = keep(newId(), visit);
        return json(201, product, { location: `/api/products/${product.id}` });
      },
    ],
    [
      'GET',
      '/api/products/:id',
      ({ params }) => {
        const found = findProduct(params['id']) ?? drafts.get(params['id']!);
        if (found === undefined) throw new Refusal(404, 'There is no such product.');
        return json(200, found);
      },
    ],
    ['PUT', '/api/products/:id', (visit) => json(200, keep(owned(visit), visit))],
    [
      'DELETE',
      '/api/products/:id',
      (visit) => {
        drafts.delete(owned(visit));
        return { status: 204, headers: {}, body: '' };
      },
    ],
  ];
}

function requireToken({ headers }: Visit, tokens: Recent<true>): void {
  const token = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1];
  if (token !== undefined && tokens.get(token) === true) return;
  throw new Refusal(401, 'Send the token of POST /api/login as Authorization: Bearer TOKEN.', {
    'www-authenticate': 'Bearer',
  });
}

function productList(visit: Visit, products: readonly Product[]): Answer {
  const category = visit.query.get('category');
  const found = products.filter((each) => category === null || each.category === category);
  const limit = numberOf(visit, 'limit', { least: 1, most: 200, otherwise: 200 });
  return json(200, { total: found.length, products: found.slice(0, limit) });
}

function productOf(id: string, given: Record<string, unknown>): Product {
  const { name, category, cents, stock = 0 } = given;
  if (typeof name !== 'string' || name.trim() === '') throw new Refusal(422, 'name must be a text.');
  if (typeof category !== 'string' || !CATEGORIES.includes(category)) {
    throw new Refusal(422, `category must be one of ${CATEGORIES.join(', ')}.`);
  }
  return { id, name, category, cents: countOf('cents', cents), stock: countOf('stock', stock) };
}

function countOf(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value;
  throw new Refusal(422, `${field} must be a whole number from 0 on.`);
}

/** Orders may be anything in JSON. */
function orderRoutes(): Route[] {
  const orders = new Recent<object>(100);
  return [
    [
      'POST',
      '/api/orders',
      (visit) => {
        const id = newId();
        orders.set(id, jsonOf(visit));
        return json(201, { id }, { location: `/api/orders/${id}` });
      },
    ],
    [
      'GET',
      '/api/orders/:id',
      ({ params }) => {
        const order = orders.get(params['id']!);
        if (order === undefined) throw new Refusal(404, 'There is no such order.');
        return json(200, order);
      },
    ],
  ];
}

/** Answers of every kind for checks to look at. */
function answerRoutes(): Route[] {
  return [
    ['GET', '/api/status', () => json(200, { status: 'ok', services: [{ name: 'shop', healthy: true }] })],
    ['GET', '/api/status/:code', ({ params }) => statusAnswer(params['code']!)],
    ['GET', '/api/headers', ({ headers }) => json(200, { headers })],
    ['GET', '/api/deals', () => json(200, { deals: DEALS.map((id) => findProduct(id)) })],
    ['GET', '/api/stories', storyPage],
    ['GET', '/outage', () => text(503, 'This page is down on purpose.\n')],
    [
      'GET',
      '/slow',
      async (visit) => {
        const ms = numberOf(visit, 'ms', { least: 0, most: 10_000, otherwise: 1000 });
        // Whoever has left gets no answer anyway.
        await delay(ms, undefined, { signal: visit.left }).catch(() => {});
        return json(200, { waitedMs: ms });
      },
    ],
  ];
}

function statusAnswer(code: string): Answer {
  if (!/^[2-5]\d\d$/.test(code)) throw new Refusal(400, 'The status must be from 200 to 599.');
  return json(Number(code), { status: Number(code) });
}

function storyPage(visit: Visit): Answer {
  const from = numberOf(visit, 'from', { least: 0, most: STORIES, otherwise: 0 });
  const stories = Array.from({ length: STORIES }, (_, index) => `Entry ${index + 1}`);
  const shown = stories.slice(from, from + STORIES_PER_PAGE);
  return json(200, { stories: shown, next: from + shown.length < STORIES ? from + shown.length : null });
}
