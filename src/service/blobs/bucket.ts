import { Readable } from 'node:stream';
import { AwsV4Signer } from 'aws4fetch';
import { Agent, request, type Dispatcher } from 'undici';

/** Where a bucket is, and who we are there. */
export interface BucketAddress {
  bucket: string;
  /** Of S3 itself when absent. */
  endpoint: string | undefined;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** The bucket stands in the path, not in the host name. */
  pathStyle: boolean;
}

/** The store answered, and not as wanted. */
export class BucketError extends Error {
  readonly status: number;
  /** The store's own word: `NoSuchBucket`. */
  readonly code: string;
  constructor(status: number, code: string, message: string) {
    super(`${code}: ${message}`);
    this.name = 'BucketError';
    this.status = status;
    this.code = code;
  }
}

type Answer = Dispatcher.ResponseData;
interface Request {
  method: 'GET' | 'PUT' | 'DELETE';
  key?: string;
  query?: Record<string, string>;
  headers?: Record<string, string>;
  body?: AsyncIterable<Uint8Array>;
}

const SILENCE_MS = 30_000;
/** An error of the store is a few lines; whatever else answers is not read to its end. */
const MAX_ERROR_BYTES = 16 * 1024;

/** The five requests of S3 that we need; every store that calls itself compatible has them. */
export class Bucket {
  readonly #address: BucketAddress;
  readonly #base: string;
  readonly #agent = new Agent({
    connectTimeout: 10_000,
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
  });

  constructor(address: BucketAddress) {
    const { bucket, endpoint, region, pathStyle } = address;
    const host = new URL(endpoint ?? `https://s3.${region}.amazonaws.com`);
    if (pathStyle) host.pathname = `${host.pathname.replace(/\/$/, '')}/${bucket}`;
    else host.hostname = `${bucket}.${host.hostname}`;
    this.#address = address;
    this.#base = host.href.replace(/\/$/, '');
  }

  /**
   * Writes an object unless there is one of this key, where the store knows that condition; else the last
   * one stays. The store checks what arrives against `sha256`.
   *
   * @param body `size` bytes; when it throws, nothing is written and this throws the same
   */
  async put(key: string, body: AsyncIterable<Uint8Array>, size: number, sha256: string): Promise<void> {
    const headers = {
      'content-length': String(size),
      'content-type': 'application/octet-stream',
      'x-amz-content-sha256': sha256,
      'if-none-match': '*',
    };
    const answer = await this.#send({ method: 'PUT', key, headers, body });
    if (answer.statusCode !== 412) await assertDone(answer);
    await answer.body.dump();
  }

  /** Bytes from `start` to before `end` of an object. */
  async *get(key: string, start: number, end: number): AsyncGenerator<Buffer> {
    const answer = await this.#send({ method: 'GET', key, headers: { range: `bytes=${start}-${end - 1}` } });
    await assertDone(answer);
    for await (const chunk of answer.body) yield chunk as Buffer;
  }

  /** Keys that begin with `prefix`; up to the next `/` and without repeats when `folders` are wanted. */
  async *list(prefix: string, folders = false): AsyncGenerator<string> {
    const query = { 'list-type': '2', prefix, ...(folders && { delimiter: '/' }) };
    for (let token: string | undefined = ''; token !== undefined;) {
      const more: Record<string, string> = token === '' ? {} : { 'continuation-token': token };
      const answer = await this.#send({ method: 'GET', query: { ...query, ...more } });
      await assertDone(answer);
      const text = await answer.body.text();
      yield* folders ? textsOf(text, 'CommonPrefixes', 'Prefix') : textsOf(text, 'Contents', 'Key');
      [token] = textsOf(text, 'NextContinuationToken');
    }
  }

  /** Removes an object; that there is none is fine. */
  async remove(key: string): Promise<void> {
    const answer = await this.#send({ method: 'DELETE', key });
    if (answer.statusCode !== 404) await assertDone(answer);
    await answer.body.dump();
  }

  async #send({ method, key, query = {}, headers = {}, body }: Request): Promise<Answer> {
    const { region, accessKeyId, secretAccessKey } = this.#address;
    const url = new URL(`${this.#base}/${key ?? ''}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const signed = await new AwsV4Signer({
      method,
      url: url.href,
      headers: { 'x-amz-content-sha256': NO_BODY, ...headers },
      service: 's3',
      region,
      accessKeyId,
      secretAccessKey,
    }).sign();
    return request(signed.url, {
      method,
      headers: Object.fromEntries(signed.headers),
      dispatcher: this.#agent,
      body: body === undefined ? null : Readable.from(body, { objectMode: false }),
    });
  }
}

/** SHA-256 of nothing. */
const NO_BODY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** @throws BucketError */
async function assertDone({ statusCode, body }: Answer): Promise<void> {
  if (statusCode < 300) return;
  let text = '';
  for await (const chunk of body) {
    text += String(chunk);
    if (text.length > MAX_ERROR_BYTES) break;
  }
  const [code = `HTTP ${statusCode}`] = textsOf(text, 'Code');
  const [message = 'the store gave no reason'] = textsOf(text, 'Message');
  throw new BucketError(statusCode, code, message);
}

/** The texts of each element `path` of an answer. Names of ours need no escapes in XML. */
function textsOf(xml: string, ...path: readonly string[]): string[] {
  const [name, ...rest] = path;
  const found = [...xml.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map(([, inner]) => inner!);
  return rest.length === 0 ? found : found.flatMap((inner) => textsOf(inner, ...rest));
}
