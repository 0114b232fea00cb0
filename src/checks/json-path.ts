import {
  JSONPathEnvironment,
  type JSONPathNode,
  type JSONPathQuery,
  type JSONValue,
  jsonpath,
} from 'json-p3';
import { PATTERN_LIMIT_MS, within } from './time-box.ts';

/** Deeper documents are refused by `..`; two thousand levels still fit V8's stack. */
const environment = new JSONPathEnvironment({ maxRecursionDepth: 2000 });
/** Compiled paths; checks repeat the same few for ever. */
const compiled = new Map<string, JSONPathQuery>();
const COMPILED_MAX = 500;
/** A body of 25 MB has room for twelve million elements; selecting all takes 5 s and 2 GB. */
const SELECTED_MAX = 100_000;

/** A path in its first, scripted dialect: `[(@.length-1)]` is the last element. */
const FROM_END = /\[\s*\(\s*@\.length\s*-\s*(\d+)\s*\)\s*\]/g;

/**
 * `length` besides the standard: an object's own member of that name, else the number of elements of
 * an array or of characters of a string.
 */
class LengthSelector extends jsonpath.selectors.NameSelector {
  override resolve(node: JSONPathNode): JSONPathNode[] {
    const { value } = node;
    if (!Array.isArray(value) && typeof value !== 'string') return super.resolve(node);
    const length = typeof value === 'string' ? characters(value) : value.length;
    return [new jsonpath.JSONPathNode(length, [...node.location, 'length'], node.root)];
  }

  override *lazyResolve(node: JSONPathNode): Generator<JSONPathNode> {
    yield* this.resolve(node);
  }
}

/** The library makes a node for each element before anybody can say that there are too many. */
class BoundedWildcard extends jsonpath.selectors.WildcardSelector {
  override resolve(node: JSONPathNode): JSONPathNode[] {
    const { value } = node;
    if (typeof value === 'object' && value !== null && Object.keys(value).length > SELECTED_MAX) {
      throw new TooMany('*');
    }
    return super.resolve(node);
  }
}

class TooMany extends Error {
  constructor(path: string) {
    super(`${path} selects more than ${SELECTED_MAX} values`);
  }
}

/** Unicode characters, as the standard's own length() counts them. */
function characters(text: string): number {
  return text.length - (text.match(/[\uD800-\uDBFF][\uDC00-\uDFFF]/g)?.length ?? 0);
}

/**
 * All values that `path` (RFC 9535, plus `.length` and `[(@.length-n)]`) selects in `document`.
 *
 * @throws Error with the reason when the path is not valid, recurses too deep, selects more than 100,000
 *   values or takes too long
 */
export function selectValues(document: unknown, path: string): unknown[] {
  const query = compile(path);
  const select = (): unknown[] => {
    const values: unknown[] = [];
    for (const node of query.lazyQuery(document as JSONValue)) {
      if (values.push(node.value) > SELECTED_MAX) throw new TooMany(path);
    }
    return values;
  };
  // All other paths touch a handful of values.
  return /\.\.|[?*:]/.test(path) ? within(PATTERN_LIMIT_MS * 5, select) : select();
}

function compile(path: string): JSONPathQuery {
  const known = compiled.get(path);
  if (known) return known;
  const query = environment.compile(path.replace(FROM_END, '[-$1]'));
  replaceSelectors(query.segments);
  if (compiled.size >= COMPILED_MAX) compiled.clear();
  compiled.set(path, query);
  return query;
}

/** Puts LengthSelector in the place of every `length` name, BoundedWildcard in that of `*`, in filters too. */
function replaceSelectors(part: unknown): void {
  if (Array.isArray(part)) {
    part.forEach((item: unknown, index) => {
      if (item instanceof jsonpath.selectors.NameSelector && item.name === 'length')
        part[index] = new LengthSelector(item.environment, item.token, item.name);
      else if (item instanceof jsonpath.selectors.WildcardSelector)
        part[index] = new BoundedWildcard(item.environment, item.token);
      else replaceSelectors(item);
    });
  } else if (typeof part === 'object' && part !== null && part !== environment) {
    for (const [name, inner] of Object.entries(part)) if (name !== 'environment') replaceSelectors(inner);
  }
}
