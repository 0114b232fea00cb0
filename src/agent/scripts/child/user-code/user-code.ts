import type { FromScript, WarmUp } from '../../protocol.ts';
import { Compiler } from './compile.ts';
import { Errors } from './errors.ts';
import { UserFiles } from './files.ts';
import { Modules } from './modules.ts';
import { Printer } from './print.ts';
import { Variables } from './variables.ts';

/** The surroundings of user code in this process. */
export class UserCode {
  readonly files: UserFiles;
  readonly modules: Modules;
  readonly errors: Errors;
  readonly variables: Variables;
  readonly printer: Printer;
  readonly #send: (message: FromScript) => void;
  readonly #compiler: Compiler;
  /** Told what nobody catches while it is set. */
  onUncaught: ((thrown: unknown) => void) | undefined;
  /** Told the code before a script ends its process, while it is set. True: the job is done, and no more is said. */
  onEnd: ((code: number) => boolean) | undefined;

  constructor({ folder, runtime }: Pick<WarmUp, 'folder' | 'runtime'>, send: (message: FromScript) => void) {
    this.#send = send;
    this.files = new UserFiles(folder, runtime.modules);
    this.#compiler = new Compiler(runtime.modules);
    this.modules = new Modules(this.files, this.#compiler, runtime.id);
    this.errors = new Errors(this.files, this.modules);
    this.variables = new Variables((value) => send({ t: 'secret', value }));
    this.printer = new Printer((level, text) =>
      send({ t: 'log', at: Date.now(), level, text: this.files.clean(text) }),
    );
  }

  /** While nobody waits: makes the first file that has to be translated as quick as the next. */
  warm(): void {
    this.#compiler.warm();
  }

  watchUncaught(): void {
    const uncaught = (thrown: unknown): void => {
      if (this.onUncaught !== undefined) return this.onUncaught(thrown);
      this.printer.say('error', this.errors.explain(thrown, 'scripts').message);
    };
    process.on('uncaughtException', uncaught);
    process.on('unhandledRejection', uncaught);
  }

  watchWarnings(): void {
    process.removeAllListeners('warning');
    process.on('warning', ({ name, message }) => {
      const isOfPackages = name === 'DeprecationWarning' || name === 'ExperimentalWarning';
      if (!isOfPackages) this.printer.say('warn', `${name}: ${message}`);
    });
  }

  /** Calls that end the process are told, with their place, before they are made. */
  watchEnds(): void {
    const tell = (call: string, code: number): void => {
      if (this.onEnd?.(code) === true) return;
      const error = { message: `${call} ended the process`, ...this.errors.here() };
      this.printer.settle();
      this.#send({ t: 'leaving', call, code, error });
    };
    const exit = process.exit.bind(process);
    const abort = process.abort.bind(process);
    const kill = process.kill.bind(process);
    process.exit = (code) => {
      tell(`process.exit(${code ?? ''})`, Number(code ?? process.exitCode ?? 0));
      return exit(code);
    };
    process.abort = () => {
      tell('process.abort()', 134);
      // Without the stack that Node prints of itself.
      kill(process.pid, 'SIGABRT');
      return abort();
    };
    process.kill = (pid, signal) => {
      if (pid === process.pid && signal !== 0) tell(`process.kill(process.pid, ${signal ?? 'SIGTERM'})`, 1);
      return kill(pid, signal);
    };
  }
}
