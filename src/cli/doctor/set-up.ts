import { Authorities } from '../../agent/authorities/index.ts';
import { ExitCode, messageOf } from '../../kit/errors.ts';
import { maskSecret } from '../../kit/ids.ts';
import { failed, ok, unneeded, untried, warning, type Hop } from './hop.ts';

const LIMIT_MS = 5_000;

/** Every setting, by its own parser. */
export const settings: Hop = {
  name: 'settings',
  limitMs: LIMIT_MS,
  look: ({ settings: { apiKey, serviceUrl }, problems, warnings }) => {
    if (problems.length > 0) {
      return failed(
        ExitCode.usage,
        problems.join(' '),
        "Correct it in the environment, in the file that a NAME_FILE names, or in .env; 'vedette help agent' lists the settings",
      );
    }
    if (warnings.length > 0) return warning(warnings.join('; '), 'Correct the name, or remove it');
    return ok(`API_KEY ${maskSecret(apiKey ?? '')}, service ${shownAddress(serviceUrl ?? '')}`);
  },
  late: () =>
    failed(
      ExitCode.usage,
      'a file with a setting cannot be read in time',
      'Look at the files that NAME_FILE settings name',
    ),
};

/** Without what may be credentials. */
function shownAddress(text: string): string {
  const url = new URL(text);
  return `${url.origin}${url.pathname === '/' ? '' : url.pathname}`;
}

/** NODE_EXTRA_CA_CERTS; from here on this process trusts what the agent would. */
export const authorities: Hop = {
  name: 'authorities',
  limitMs: LIMIT_MS,
  look: ({ settings: known }) => {
    if (!('extraCaCerts' in known)) return untried('settings');
    const { extraCaCerts } = known;
    try {
      const found = new Authorities(extraCaCerts);
      found.trustHere();
      if (extraCaCerts === undefined)
        return unneeded("NODE_EXTRA_CA_CERTS is not set; Node's and the machine's are trusted");
      const what = found.extraCount === 1 ? '1 certificate' : `${found.extraCount} certificates`;
      return ok(`${what} in ${extraCaCerts}, besides Node's and the machine's`);
    } catch (error) {
      new Authorities(undefined).trustHere();
      return failed(
        ExitCode.usage,
        messageOf(error),
        'Let NODE_EXTRA_CA_CERTS name a file in PEM form that this user can read, mounted into the container if there is one',
      );
    }
  },
  late: () =>
    failed(ExitCode.usage, 'the file of authorities cannot be read in time', 'Look at NODE_EXTRA_CA_CERTS'),
};
