import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mustRun } from '../programs.ts';

/** Files of one server certificate: `chain` is what the server sends, leaf first. */
export interface Certificate {
  chain: string;
  key: string;
}

/** Everything that can be wrong with a certificate, one server certificate each. */
export interface Certificates {
  /** The only root that clients are told to trust (NODE_EXTRA_CA_CERTS, curl --cacert). */
  trusted: string;
  good: Certificate;
  wildcard: Certificate;
  viaIntermediate: Certificate;
  intermediateMissing: Certificate;
  expired: Certificate;
  notYetValid: Certificate;
  wrongHost: Certificate;
  /** Its name stands in the subject only: browsers refuse it, OpenSSL and Node still take it. */
  subjectOnly: Certificate;
  selfSigned: Certificate;
  unknownRoot: Certificate;
}

/** Names that the good certificates are for. The zone of `startNamed` has addresses for them. */
export const GOOD_NAME = 'good.vedette.test';
export const WILDCARD_NAME = 'any.wild.vedette.test';

const goodSan = `DNS:${GOOD_NAME},DNS:sni.vedette.test,DNS:dual.vedette.test,DNS:localhost,IP:127.0.0.1,IP:::1`;

/** A private certificate authority, made anew in `folder`. P-256 throughout: a key takes 5 ms. */
export async function makeCertificates(folder: string): Promise<Certificates> {
  const authority = new Authority(folder);
  const root = await authority.root('trusted');
  const other = await authority.root('unknown');
  const between = await authority.issue('intermediate', root, { san: '', ca: true });
  const issue = (name: string, options: LeafOptions, by = root): Promise<Certificate> =>
    authority.issue(name, by, options);
  const viaIntermediate = await issue('via-intermediate', { san: goodSan }, between);
  return {
    trusted: root.chain,
    good: await issue('good', { san: goodSan }),
    wildcard: await issue('wildcard', { san: 'DNS:*.wild.vedette.test' }),
    viaIntermediate: await authority.bundle(viaIntermediate, between),
    intermediateMissing: viaIntermediate,
    expired: await issue('expired', { san: goodSan, from: '20200101000000Z', to: '20200201000000Z' }),
    notYetValid: await issue('future', { san: goodSan, from: '20700101000000Z', to: '20710101000000Z' }),
    wrongHost: await issue('wrong-host', { san: 'DNS:elsewhere.vedette.test' }),
    subjectOnly: await issue('subject-only', { san: '', subject: GOOD_NAME }),
    selfSigned: await authority.root('self-signed', goodSan),
    unknownRoot: await issue('unknown-leaf', { san: goodSan }, other),
  };
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

interface LeafOptions {
  san: string;
  subject?: string;
  ca?: boolean;
  /** GeneralizedTime, as `openssl ca` takes it. */
  from?: string;
  to?: string;
}

class Authority {
  readonly #folder: string;
  #serial = 1;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async root(name: string, san?: string): Promise<Certificate> {
    const files = this.#files(name);
    const subject = ['-subj', `/CN=${name} root of the tests`, '-days', '3650'];
    const names = san === undefined ? [] : ['-addext', `subjectAltName=${san}`];
    const output = ['-keyout', files.key, '-out', files.chain];
    await mustRun('openssl', ['req', '-x509', ...NEW_KEY, ...subject, ...names, ...output]);
    return files;
  }

  /** `openssl ca` is the one command of OpenSSL 3.0 that takes both dates. */
  async issue(name: string, by: Certificate, options: LeafOptions): Promise<Certificate> {
    const files = this.#files(name);
    const request = join(this.#folder, `${name}.csr`);
    const subject = ['-subj', `/CN=${options.subject ?? name}`];
    await mustRun('openssl', ['req', '-new', ...NEW_KEY, ...subject, '-keyout', files.key, '-out', request]);
    const dates = [
      '-startdate',
      options.from ?? '20200101000000Z',
      '-enddate',
      options.to ?? '20700101000000Z',
    ];
    const signer = ['-config', this.#config(name, options), '-cert', by.chain, '-keyfile', by.key];
    const paths = ['-in', request, '-out', files.chain];
    await mustRun('openssl', ['ca', '-batch', '-notext', ...signer, ...dates, ...paths]);
    return files;
  }

  async bundle(leaf: Certificate, ...above: Certificate[]): Promise<Certificate> {
    const chain = leaf.chain.replace('.pem', '-bundle.pem');
    const texts = await Promise.all(
      [leaf, ...above].map((each) => mustRun('openssl', ['x509', '-in', each.chain])),
    );
    writeFileSync(chain, texts.join(''));
    return { chain, key: leaf.key };
  }

  #files(name: string): Certificate {
    return { chain: join(this.#folder, `${name}.pem`), key: join(this.#folder, `${name}.key`) };
  }

  #config(name: string, { san, ca }: LeafOptions): string {
    const file = join(this.#folder, `${name}.cnf`);
    const database = join(this.#folder, `${name}.index`);
    const serial = join(this.#folder, `${name}.serial`);
    writeFileSync(database, '');
    writeFileSync(serial, `${(this.#serial++).toString(16).padStart(4, '0')}\n`);
    const extensions = [
      `basicConstraints = critical,CA:${ca ? 'TRUE' : 'FALSE'}`,
      ...(san === '' ? [] : [`subjectAltName = ${san}`]),
    ];
    const lines = [
      '[ca]\ndefault_ca = here\n[here]',
      `database = ${database}\nserial = ${serial}\nnew_certs_dir = ${this.#folder}`,
      'default_md = sha256\npolicy = any\nx509_extensions = leaf\nunique_subject = no',
      `[any]\ncommonName = supplied\n[leaf]\n${extensions.join('\n')}\n`,
    ];
    writeFileSync(file, lines.join('\n'));
    return file;
  }
}
