import { html, type Html } from './html.ts';

export interface Product {
  id: string;
  name: string;
  category: string;
  cents: number;
  stock: number;
}

export const CATALOG: readonly Product[] = [
  product('lantern', 'Storm lantern', 'light', 1950, 12),
  product('torch', 'Pocket torch', 'light', 890, 40),
  product('lamp', 'Signal lamp', 'light', 12_900, 3),
  product('bulb', 'Spare bulb', 'light', 240, 200),
  product('rope', 'Mooring rope, 10 m', 'rope', 2480, 25),
  product('twine', 'Tarred twine', 'rope', 420, 90),
  product('line', 'Throwing line', 'rope', 3150, 8),
  product('anchor', 'Folding anchor', 'deck', 4400, 6),
  product('fender', 'Fender', 'deck', 1720, 30),
  product('hook', 'Boat hook', 'deck', 2790, 11),
  product('bell', 'Brass bell', 'deck', 6800, 0),
  product('compass', 'Hand compass', 'chart', 5400, 7),
  product('divider', 'Chart divider', 'chart', 1340, 15),
  product('almanac', 'Tide almanac', 'chart', 990, 50),
];

function product(id: string, name: string, category: string, cents: number, stock: number): Product {
  return { id, name, category, cents, stock };
}

export const CATEGORIES: readonly string[] = [...new Set(CATALOG.map(({ category }) => category))];

export const findProduct = (id: string | undefined): Product | undefined =>
  CATALOG.find((each) => each.id === id);

/** `19.50 €` */
export const priced = (cents: number): string => `${(cents / 100).toFixed(2)} €`;

export const options = (values: readonly string[]): Html[] =>
  values.map((value) => html`<option>${value}</option>`);
