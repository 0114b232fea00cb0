import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runProgram, startProgram, type RunningProgram } from '../programs.ts';
import { freePort } from './ports.ts';

export interface Named extends RunningProgram {
  /** UDP and TCP, on 127.0.0.1 and ::1. */
  port: number;
}

/** 1.6 kB of addresses: more than fits into 512 bytes and into the 1232 of EDNS. BIND allows 100. */
export const LARGE_ANSWER_ADDRESSES = 100;

const addresses = Array.from({ length: LARGE_ANSWER_ADDRESSES }, (_, i) => `large A 198.51.100.${i}`);
const longText = 'v=spf1 ' + 'x'.repeat(248);

const ZONE = `$TTL 300
@ SOA ns1 hostmaster ( 2026010101 7200 3600 1209600 300 )
@ NS ns1
@ NS ns2
ns1 A 127.0.0.1
ns2 A 127.0.0.2
good A 127.0.0.1
sni A 127.0.0.1
any.wild A 127.0.0.1
dual A 127.0.0.1
dual AAAA ::1
v4 A 127.0.0.1
v6 AAAA ::1
multi A 192.0.2.1
multi A 192.0.2.2
multi A 192.0.2.3
alias CNAME good
chain CNAME alias
dangling CNAME nowhere
loop1 CNAME loop2
loop2 CNAME loop1
mail MX 10 ns1
mail MX 20 ns2
nullmx MX 0 .
text TXT "one string"
text TXT "two" "strings"
longtext TXT "${longText.slice(0, 255)}" "${'y'.repeat(200)}"
oddtext TXT "quote \\" semicolon \\; backslash \\\\ byte \\200"
empty TXT ""
svc HTTPS 1 . alpn=h2,http/1.1 ipv4hint=192.0.2.7 ipv6hint=2001:db8::7 port=8443
svcalias HTTPS 0 good
*.star A 127.0.0.3
zero 0 A 127.0.0.1
${addresses.join('\n')}
`;

/**
 * Starts BIND as an authoritative and forwarding server: the zone vedette.test with every record type;
 * broken.test, which does not load (SERVFAIL); dead.test, whose forwarder is a closed port (SERVFAIL);
 * refused.test, which nobody may ask (REFUSED); any other name is refused too, as recursion is off there.
 */
export async function startNamed(folder: string): Promise<Named> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const closed = await freePort();
  const config = join(folder, 'named.conf');
  writeFileSync(join(folder, 'vedette.zone'), ZONE);
  writeFileSync(join(folder, 'broken.zone'), '@ this is not a zone\n');
  writeFileSync(
    config,
    `options {
  directory "${folder}"; pid-file none; session-keyfile none; managed-keys-directory "${folder}";
  listen-on port ${port} { 127.0.0.1; }; listen-on-v6 port ${port} { ::1; };
  recursion yes; allow-recursion { 127.0.0.1; ::1; }; dnssec-validation no; empty-zones-enable no;
  minimal-responses yes; forward only; forwarders { 127.0.0.1 port ${closed}; };
  max-udp-size 1232; notify no; max-cache-size 8m;
};
controls { };
zone "vedette.test" { type primary; file "vedette.zone"; };
zone "broken.test" { type primary; file "broken.zone"; };
zone "refused.test" { type primary; file "vedette.zone"; allow-query { none; }; };
zone "dead.test" { type forward; forward only; forwarders { 127.0.0.1 port ${closed}; }; };
logging { channel out { stderr; severity warning; }; category default { out; }; };
`,
  );
  const running = await startProgram('named', ['-f', '-c', config, '-n', '1'], () => answers(port));
  return Object.assign(running, { port });
}

async function answers(port: number): Promise<boolean> {
  const question = ['@127.0.0.1', '-p', String(port), 'good.vedette.test', 'A'];
  const { stdout } = await runProgram('dig', [...question, '+short', '+tries=1', '+time=1']);
  return stdout.trim() === '127.0.0.1';
}
