import type { Socket } from 'node:net';
import {
  checkServerIdentity,
  connect,
  createSecureContext,
  type PeerCertificate,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import { codeOf, messageOf } from '../../kit/errors.ts';
import { wallMs } from '../../kit/clock.ts';
import { TargetFailure, tlsReason } from './failure.ts';

/** What a result says about the encryption. */
export interface TlsFacts {
  protocol: string | null;
  cipher: string;
  /** Whether the certificate was good; false is only seen with skipSSL. */
  authorized: boolean;
  certificate: CertificateFacts | null;
}

interface CertificateFacts {
  subject: string;
  issuer: string;
  validFrom: string;
  validTo: string;
  /** Whole days until it expires; negative afterwards. */
  daysLeft: number;
  /** SHA-256, hexadecimal pairs. */
  fingerprint: string;
}

export interface Secured {
  socket: TLSSocket;
  facts: TlsFacts;
  /** Protocol that the server chose; null when it has no opinion. */
  alpn: string | null;
}

let sharedContext: SecureContext | undefined;

/**
 * Node's own authorities, with NODE_EXTRA_CA_CERTS, and those of the operating system where Node runs
 * with `--use-system-ca`. One context for all checks: a fresh one each costs more than half a check.
 */
function context(): SecureContext {
  sharedContext ??= createSecureContext();
  return sharedContext;
}

/** Reads the authorities now instead of during the first check, whose times it would spoil. */
export function warmTls(): void {
  context();
}

/** The authorities of this process have changed. */
export function renewTls(): void {
  sharedContext = undefined;
}

/**
 * TLS over a connected socket. The certificate is judged here and not by OpenSSL during the handshake,
 * so that a bad one can be described.
 *
 * @param name host of the URL, without brackets or trailing dot
 * @throws TargetFailure
 */
export function secure(
  socket: Socket,
  name: string,
  isAddress: boolean,
  endpoint: string,
  options: { skipSSL: boolean; alpn: string[] },
): Promise<Secured> {
  return new Promise((resolve, reject) => {
    let seen: PeerCertificate | undefined;
    let identity: Error | undefined;
    const secured = connect({
      socket,
      secureContext: context(),
      host: name,
      ...(isAddress ? {} : { servername: name }),
      ALPNProtocols: options.alpn,
      rejectUnauthorized: false,
      checkServerIdentity: (_host, certificate) => {
        seen = certificate;
        identity = checkServerIdentity(name, certificate);
        return identity;
      },
    });
    const failed = (error: Error): void => {
      secured.destroy();
      reject(error instanceof TargetFailure ? error : handshakeFailure(error, endpoint));
    };
    secured.once('error', failed);
    secured.once('secureConnect', () => {
      const certificate = seen ?? peerCertificate(secured);
      if (!options.skipSSL && !secured.authorized) {
        const code = identity ? 'ERR_TLS_CERT_ALTNAME_INVALID' : messageOf(secured.authorizationError);
        failed(certificateFailure(code, certificate, name));
        return;
      }
      secured.off('error', failed);
      resolve({ socket: secured, facts: factsOf(secured, certificate), alpn: secured.alpnProtocol || null });
    });
  });
}

function peerCertificate(socket: TLSSocket): PeerCertificate | undefined {
  const certificate = socket.getPeerCertificate();
  return Object.keys(certificate).length === 0 ? undefined : certificate;
}

function factsOf(socket: TLSSocket, certificate: PeerCertificate | undefined): TlsFacts {
  return {
    protocol: socket.getProtocol(),
    cipher: socket.getCipher().standardName,
    authorized: socket.authorized,
    certificate: certificate ? certificateFacts(certificate) : null,
  };
}

function certificateFacts(certificate: PeerCertificate): CertificateFacts {
  const expires = Date.parse(certificate.valid_to);
  return {
    subject: nameOf(certificate.subject),
    issuer: nameOf(certificate.issuer),
    validFrom: isoDate(certificate.valid_from),
    validTo: isoDate(certificate.valid_to),
    daysLeft: Math.floor((expires - wallMs()) / 86_400_000),
    fingerprint: certificate.fingerprint256,
  };
}

function isoDate(text: string): string {
  const time = Date.parse(text);
  return Number.isNaN(time) ? text : new Date(time).toISOString();
}

function nameOf(name: PeerCertificate['subject'] | undefined): string {
  if (name === undefined) return '';
  const first = (value: string | string[] | undefined): string | undefined =>
    Array.isArray(value) ? value[0] : value;
  return first(name.CN) ?? first(name.O) ?? first(name.OU) ?? '';
}

/** Why the certificate is refused, with the fact that explains it. */
function certificateFailure(
  code: string,
  certificate: PeerCertificate | undefined,
  host: string,
): TargetFailure {
  const of = `the certificate of ${host}`;
  const say = (sentence: string): TargetFailure => new TargetFailure(code, sentence, false);
  const issuer = nameOf(certificate?.issuer) || 'an unnamed authority';
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return say(
        Date.parse(certificate?.valid_to ?? '') > wallMs()
          ? `a certificate in the chain of ${host} has expired`
          : `${of} has expired on ${isoDate(certificate?.valid_to ?? '')}`,
      );
    case 'CERT_NOT_YET_VALID':
      return say(`${of} is not valid before ${isoDate(certificate?.valid_from ?? '')}`);
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return say(`${of} is for other names: ${namesIn(certificate)}`);
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
      return say(`${of} is self-signed`);
    case 'SELF_SIGNED_CERT_IN_CHAIN':
      return say(
        `${of} comes from an authority that is not trusted here: the chain ends in a self-signed one`,
      );
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return say(
        `${of} is issued by ${issuer}, which is not trusted here, or the server leaves out intermediates`,
      );
    default:
      return say(`${of} is not accepted: ${code}`);
  }
}

function namesIn(certificate: PeerCertificate | undefined): string {
  const alternatives = certificate?.subjectaltname?.replaceAll('DNS:', '').replaceAll('IP Address:', '');
  return alternatives || nameOf(certificate?.subject) || 'none';
}

/** The handshake itself did not come about. */
function handshakeFailure(error: Error, endpoint: string): TargetFailure {
  const code = codeOf(error) ?? 'EPROTO';
  const say = (sentence: string, network = false): TargetFailure =>
    new TargetFailure(code, sentence, network, { cause: error });
  if (/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|BAD_RECORD_TYPE/.test(code)) {
    return say(`${endpoint} does not speak TLS: it answered the handshake with something else (${code})`);
  }
  if (/PROTOCOL_VERSION|UNSUPPORTED_PROTOCOL/.test(code)) {
    return say(`${endpoint} offers no TLS version that is accepted, 1.2 or 1.3 (${code})`);
  }
  if (/NO_APPLICATION_PROTOCOL/.test(code))
    return say(`${endpoint} offers neither HTTP/1.1 nor HTTP/2 (${code})`);
  if (/HANDSHAKE_FAILURE/.test(code)) {
    return say(
      `${endpoint} refused the handshake: no cipher or protocol in common, or it wants a client certificate (${code})`,
    );
  }
  if (/UNRECOGNIZED_NAME/.test(code)) return say(`${endpoint} knows no site of this name (${code})`);
  if (code === 'ECONNRESET' || code === 'EPIPE') {
    return say(`${endpoint} closed the connection during the TLS handshake (${code})`, true);
  }
  return say(`the TLS handshake with ${endpoint} failed: ${tlsReason(error)}`, !code.startsWith('ERR_'));
}
