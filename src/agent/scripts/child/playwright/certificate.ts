import { connect } from 'node:tls';

/** The certificate of `sslCheckDomain`. */
export interface Certificate {
  domain: string;
  /** Null when none was shown. */
  validTo: string | null;
  daysRemaining: number | null;
  issuer: string | null;
  /** Why it is not trusted, or could not be read. */
  error: string | null;
}

const PORT = 443;
const TIMEOUT_MS = 10_000;
const DAY_MS = 86_400_000;

/** Looks at the certificate that a host shows for its name. Never rejects. */
export function readCertificate(domain: string): Promise<Certificate> {
  const [host = domain, port] = domain
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '')
    .split(':');
  return new Promise((resolve) => {
    const nothing = { domain, validTo: null, daysRemaining: null, issuer: null };
    const socket = connect({ host, port: Number(port ?? PORT), servername: host, rejectUnauthorized: false });
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no answer within ${TIMEOUT_MS / 1000} s`)));
    socket.on('error', ({ message }) => resolve({ ...nothing, error: message }));
    socket.on('secureConnect', () => {
      const { valid_to: validTo, issuer } = socket.getPeerCertificate();
      const ends = Date.parse(validTo);
      const error = socket.authorized ? null : String(socket.authorizationError);
      socket.destroy();
      if (Number.isNaN(ends)) return resolve({ ...nothing, error: error ?? 'no certificate' });
      return resolve({
        domain,
        validTo: new Date(ends).toISOString(),
        daysRemaining: Math.floor((ends - Date.now()) / DAY_MS),
        issuer: [issuer.O ?? issuer.CN].flat()[0] ?? null,
        error,
      });
    });
  });
}
