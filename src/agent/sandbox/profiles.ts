/**
 * Who is walled in, and how much room it gets. `probe`: our own code that talks to targets. `script`:
 * code of a user without a browser. `browser`: code of a user and Chromium. `suite`: a project of a user
 * whose native tools must run in its folder.
 */
export type Profile = 'probe' | 'script' | 'browser' | 'suite';

interface Room {
  /** Prints are the user's and are handed on; otherwise only the last words on stderr are kept. */
  prints: boolean;
  /** Node's permission system on top, unless the program says otherwise. */
  permission: boolean;
}

export const ROOMS: Readonly<Record<Profile, Room>> = {
  probe: { prints: false, permission: true },
  script: { prints: true, permission: true },
  browser: { prints: true, permission: false },
  suite: { prints: true, permission: false },
};
