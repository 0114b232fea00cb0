import { codeOf, messageOf } from '../../kit/errors.ts';

/** The target did not do its part. Caught in probe(), where it becomes the result's failure. */
export class TargetFailure extends Error {
  readonly code: string;
  /** A transport failure, worth a retry. */
  readonly network: boolean;
  constructor(code: string, message: string, network: boolean, options?: ErrorOptions) {
    super(message, options);
    this.name = 'TargetFailure';
    this.code = code;
    this.network = network;
  }
}

/** The wanted address family may not work on this machine, while the other one does. */
const FAMILY_UNUSABLE = new Set(['EADDRNOTAVAIL', 'ENETUNREACH', 'EAFNOSUPPORT']);

/** A connection attempt that failed; whose fault that is, is not decided yet. */
export class ConnectError extends Error {
  readonly code: string;
  readonly address: string;
  readonly endpoint: string;
  constructor(cause: unknown, address: string, endpoint: string) {
    super(messageOf(cause), { cause });
    this.name = 'ConnectError';
    this.code = codeOf(cause) ?? 'ECONNFAILED';
    this.address = address;
    this.endpoint = endpoint;
  }

  get familyUnusable(): boolean {
    return FAMILY_UNUSABLE.has(this.code);
  }
}

/** The target did not let us connect. */
export function connectFailure(error: ConnectError): TargetFailure {
  const sentence = connectSentence(error.code, error.endpoint, error.message);
  return new TargetFailure(error.code, sentence, true, { cause: error });
}

function connectSentence(code: string, endpoint: string, message: string): string {
  switch (code) {
    case 'ECONNREFUSED':
      return `${endpoint} refused the connection (ECONNREFUSED)`;
    case 'ECONNRESET':
      return `${endpoint} reset the connection while it was opened (ECONNRESET)`;
    case 'ETIMEDOUT':
      return `${endpoint} did not answer the connection attempt (ETIMEDOUT)`;
    case 'EHOSTUNREACH':
    case 'ENETUNREACH':
      return `${endpoint} cannot be reached, says the network (${code})`;
    default:
      return `connecting to ${endpoint} failed: ${message}`;
  }
}

/** An error after the connection stood, while `phase` (`waiting for the answer`, …) was going on. */
export function exchangeFailure(error: unknown, endpoint: string, phase: string): TargetFailure {
  if (error instanceof TargetFailure) return error;
  const code = codeOf(error) ?? 'EPROTO';
  return new TargetFailure(code, exchangeSentence(code, endpoint, phase, error), isNetwork(code), {
    cause: error,
  });
}

function exchangeSentence(code: string, endpoint: string, phase: string, error: unknown): string {
  if (code === 'HPE_HEADER_OVERFLOW') return `the answer of ${endpoint} has more than 256 KB of headers`;
  if (code.startsWith('HPE_')) {
    const reason = messageOf(error).replace(/^Parse Error:?\s*/, '');
    return `${endpoint} answered something that is not valid HTTP: ${reason || code} (${code})`;
  }
  if (/CERTIFICATE_REQUIRED/.test(code)) return `${endpoint} wants a client certificate (${code})`;
  if (code.startsWith('ERR_SSL_')) return `TLS broke off while ${phase}: ${tlsReason(error)} (${code})`;
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return `${endpoint} closed the connection while ${phase} (${code})`;
  }
  return `${messageOf(error)} while ${phase}, ${endpoint} (${code})`;
}

/** OpenSSL's words without its source file, line and queue. */
export function tlsReason(error: unknown): string {
  const reason = error instanceof Error && 'reason' in error ? error.reason : undefined;
  return typeof reason === 'string' ? reason : messageOf(error);
}

function isNetwork(code: string): boolean {
  return !code.startsWith('HPE_') && !code.startsWith('ERR_');
}
