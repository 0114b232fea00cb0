/** A file is not sent. The message is for the user: what is wrong with the file, without its name. */
export class Refusal extends Error {
  readonly sizeBytes: number;
  constructor(message: string, sizeBytes = 0) {
    super(message);
    this.name = 'Refusal';
    this.sizeBytes = sizeBytes;
  }
}
