/**
 * Makes a private location and writes the key for its agents into a file, once: the key is shown only in
 * the answer that makes it.
 *
 *   node location.mjs SLUG KEY_FILE       with SERVICE_URL, ACCOUNT_ID and ACCOUNT_KEY
 */
import { existsSync, renameSync, writeFileSync } from 'node:fs';

const [slugName, file] = process.argv.slice(2);
const { SERVICE_URL, ACCOUNT_ID, ACCOUNT_KEY } = process.env;

if (existsSync(file)) {
  console.log(`${slugName} is there`);
  process.exit(0);
}
const response = await fetch(`${SERVICE_URL}/v1/private-locations`, {
  method: 'POST',
  headers: {
    authorization: `Bearer ${ACCOUNT_KEY}`,
    'x-service-account': ACCOUNT_ID,
    'content-type': 'application/json',
  },
  body: JSON.stringify({ name: slugName, slugName }),
});
const answer = await response.json();
if (!response.ok) {
  console.error(`${slugName} cannot be made: ${response.status} ${JSON.stringify(answer)}`);
  process.exit(1);
}
// Renamed, so that no half of it is ever read.
writeFileSync(`${file}.new`, answer.keys[0].rawKey);
renameSync(`${file}.new`, file);
console.log(`${slugName} is made`);
