import { runProgram } from '../programs.ts';

/** OpenSSL's verification codes that the tests meet, by the names that Node uses for them. */
const NAMES: Readonly<Record<number, string>> = {
  0: 'OK',
  9: 'CERT_NOT_YET_VALID',
  10: 'CERT_HAS_EXPIRED',
  18: 'DEPTH_ZERO_SELF_SIGNED_CERT',
  19: 'SELF_SIGNED_CERT_IN_CHAIN',
  20: 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  21: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  62: 'ERR_TLS_CERT_ALTNAME_INVALID',
};

/** The verification result of `openssl s_client`; `HANDSHAKE` when there was no certificate to verify. */
export async function verifyCode(host: string, port: number, name: string, trusted: string): Promise<string> {
  const identity = /^[\d.]+$|:/.test(name)
    ? ['-verify_ip', name]
    : ['-verify_hostname', name, '-servername', name];
  const trust = ['-CAfile', trusted, '-no-CApath', '-no-CAstore'];
  const { stdout } = await runProgram('openssl', [
    's_client',
    '-connect',
    `${host}:${port}`,
    ...trust,
    ...identity,
  ]);
  if (stdout.includes('no peer certificate available')) return 'HANDSHAKE';
  // With TLS 1.3 the line comes again for each session ticket; all say the same.
  const code = Number(/Verify return code: (\d+)/.exec(stdout)?.[1] ?? -1);
  return NAMES[code] ?? String(code);
}
