/** The project is at fault: `message` is one sentence that says what to change. */
export class SuiteProblem extends Error {
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.name = 'SuiteProblem';
    this.code = code;
  }
}
