import type { Library, ProcessHost, WorkerMain } from './library.ts';

interface Message {
  method: string;
  params?: { id?: number; method: string; params: unknown };
}

/**
 * Playwright's first worker runs in this process, which has loaded all that it needs: half a second and a
 * Node less than a fork. After a failed test Playwright wants a fresh worker for the tests that are left;
 * that one is forked as always, so that no state of the failed test is in it.
 *
 * @param fork starts the process of any other worker
 */
export function keepFirstWorkerHere(
  library: Library,
  fork: <T>(host: ProcessHost, start: () => T) => T,
): void {
  let isTaken = false;
  library.replaceWorkers(async (host, params, original) => {
    if (isTaken) return fork(host, original);
    isTaken = true;
    host.process = new InProcessWorker(host, library.createWorker(host._runnerScript, params));
    return undefined;
  });
}

/** Stands where the runner keeps a child process. */
class InProcessWorker {
  readonly #host: ProcessHost;
  readonly #worker: WorkerMain;

  constructor(host: ProcessHost, worker: WorkerMain) {
    this.#host = host;
    this.#worker = worker;
    worker.dispatchEvent = (method, params) => {
      host.emit(method, plain(params));
    };
    worker.sendRequest = async (method, params) => host._requestHandlers?.get(method)?.(params);
  }

  send(message: Message): void {
    if (message.method === '__stop__') void this.#stop();
    else if (message.method === '__dispatch__' && message.params !== undefined) this.#call(message.params);
  }

  /** Nothing is awaited here: this would be at the bottom of every stack that the user sees. */
  #call({ id, method, params }: NonNullable<Message['params']>): void {
    const handler = this.#worker[method] as (params: unknown) => Promise<unknown>;
    // The runner notes who waits for an answer after it has sent the question.
    queueMicrotask(() => {
      const waiting = id === undefined ? undefined : this.#host._callbacks.get(id);
      if (id !== undefined) this.#host._callbacks.delete(id);
      handler.call(this.#worker, plain(params)).then(
        (result) => waiting?.resolve(result),
        (error: Error) => (waiting === undefined ? this.#crash(error) : waiting.reject(error)),
      );
    });
  }

  /** Of itself, not of a test: a process would have ended. */
  #crash({ message, stack }: Error): void {
    this.#host.emit('teardownErrors', { fatalErrors: [{ message, stack }] });
    this.#host.emit('exit', { unexpectedly: true, code: 1, signal: null });
  }

  async #stop(): Promise<void> {
    const host = this.#host;
    await this.#worker.gracefullyClose();
    // It put its own in front of those of the class.
    Reflect.deleteProperty(process.stdout, 'write');
    Reflect.deleteProperty(process.stderr, 'write');
    host._processDidExit = true;
    await host.onExit();
    host._didExitAndRanOnExit = true;
    host.emit('exit', { unexpectedly: !host._didSendStop, code: 0, signal: null });
  }
}

/** As it would arrive in another process: nobody changes what the other side holds. */
const plain = <T>(value: T): T => (value === undefined ? value : (JSON.parse(JSON.stringify(value)) as T));
