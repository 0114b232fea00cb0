import { createHash, X509Certificate } from 'node:crypto';
import { renameSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';

/*
 * Chromium on Linux asks the NSS database of its user, `~/.pki/nssdb`, for authorities beside its own. It
 * is a file of SQLite, one row per object, one column per attribute, named by PKCS #11's numbers in
 * hexadecimal. Each authority is two objects: the certificate and the trust in it. NSS adds what is missing:
 * the other columns, and the files for keys.
 */
const CLASS = 'a0';
const TOKEN = 'a1';
const PRIVATE = 'a2';
const LABEL = 'a3';
const VALUE = 'a11';
const CERTIFICATE_TYPE = 'a80';
const ISSUER = 'a81';
const SERIAL = 'a82';
const SUBJECT = 'a101';
const ID = 'a102';
const MODIFIABLE = 'a170';
const SERVER_TRUST = 'ace536358';
const CLIENT_TRUST = 'ace536359';
const CODE_TRUST = 'ace53635a';
const MAIL_TRUST = 'ace53635b';
const STEP_UP = 'ace536360';
const SHA1 = 'ace5363b4';
const MD5 = 'ace5363b5';
// prettier-ignore
const COLUMNS = [
  CLASS, TOKEN, PRIVATE, LABEL, VALUE, CERTIFICATE_TYPE, ISSUER, SERIAL, SUBJECT, ID, MODIFIABLE,
  SERVER_TRUST, CLIENT_TRUST, CODE_TRUST, MAIL_TRUST, STEP_UP, SHA1, MD5,
];

const number = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};
const CERTIFICATE_OBJECT = number(1);
const TRUST_OBJECT = number(0xce534353);
const X509 = number(0);
/** Believed itself; an authority whose certificates are believed; neither. */
const TRUSTED = number(0xce534351);
const AUTHORITY = number(0xce534352);
const UNSAID = number(0xce534353);
const YES = Buffer.from([1]);
const NO = Buffer.from([0]);
/** Stands for an empty value, which SQLite would take for none. */
const NOTHING = Buffer.from([0xa5, 0x00, 0x5a]);

type Row = Readonly<Record<string, Buffer>>;

/** Writes a database that trusts these certificates to vouch for servers. */
export function writeBrowserDatabase(path: string, pems: readonly string[]): void {
  const unfinished = `${path}.new`;
  rmSync(unfinished, { force: true });
  const database = new DatabaseSync(unfinished);
  try {
    database.exec(`PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN;
      CREATE TABLE nssPublic (id PRIMARY KEY UNIQUE ON CONFLICT ABORT, ${COLUMNS.join(', ')});
      CREATE INDEX issuer ON nssPublic (${ISSUER}); CREATE INDEX subject ON nssPublic (${SUBJECT});
      CREATE INDEX label ON nssPublic (${LABEL}); CREATE INDEX ckaid ON nssPublic (${ID});`);
    const marks = COLUMNS.map(() => '?').join(', ');
    const insert = database.prepare(`INSERT INTO nssPublic (id, ${COLUMNS.join(', ')}) VALUES (?, ${marks})`);
    for (const [index, row] of pems.flatMap(rowsOf).entries()) {
      insert.run(index + 1, ...COLUMNS.map((column) => row[column] ?? null));
    }
    database.exec('COMMIT');
  } finally {
    database.close();
  }
  renameSync(unfinished, path);
}

function rowsOf(pem: string): Row[] {
  const { raw, ca } = new X509Certificate(pem);
  const { serial, issuer, subject } = namesIn(raw);
  const sha1 = createHash('sha1').update(raw).digest();
  const common = { [TOKEN]: YES, [PRIVATE]: NO, [MODIFIABLE]: YES, [ISSUER]: issuer, [SERIAL]: serial };
  return [
    {
      ...common,
      [CLASS]: CERTIFICATE_OBJECT,
      [CERTIFICATE_TYPE]: X509,
      [LABEL]: Buffer.from(sha1.toString('hex')),
      [VALUE]: raw,
      [SUBJECT]: subject,
      [ID]: sha1,
    },
    {
      ...common,
      [CLASS]: TRUST_OBJECT,
      [LABEL]: NOTHING,
      [SERVER_TRUST]: ca ? AUTHORITY : TRUSTED,
      [CLIENT_TRUST]: UNSAID,
      [CODE_TRUST]: UNSAID,
      [MAIL_TRUST]: UNSAID,
      [STEP_UP]: NO,
      [SHA1]: sha1,
      [MD5]: createHash('md5').update(raw).digest(),
    },
  ];
}

/** The three fields that a certificate is found by, as they stand in it (RFC 5280, 4.1). */
function namesIn(certificate: Buffer): { serial: Buffer; issuer: Buffer; subject: Buffer } {
  const fields = elementsOf(contentOf(elementsOf(contentOf(certificate))[0]!));
  // The version comes first, unless it is 1.
  const [serial, , issuer, , subject] = fields[0]![0] === 0xa0 ? fields.slice(1) : fields;
  return { serial: serial!, issuer: issuer!, subject: subject! };
}

/** The elements of a DER sequence, each with its header. */
function elementsOf(content: Buffer): Buffer[] {
  const found: Buffer[] = [];
  for (let at = 0; at < content.length;) {
    const { header, length } = sizeOf(content.subarray(at));
    found.push(content.subarray(at, at + header + length));
    at += header + length;
  }
  return found;
}

function contentOf(element: Buffer): Buffer {
  const { header, length } = sizeOf(element);
  return element.subarray(header, header + length);
}

function sizeOf(element: Buffer): { header: number; length: number } {
  const first = element[1]!;
  if (first < 0x80) return { header: 2, length: first };
  const bytes = first & 0x7f;
  return { header: 2 + bytes, length: element.readUIntBE(2, bytes) };
}
