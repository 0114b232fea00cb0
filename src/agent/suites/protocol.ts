/**
 * What the agent and the process of a suite say to one another, as lines of JSON on file descriptor 3. The
 * process is ours and begins within the walls; the commands of the project that it starts may do anything,
 * so every answer is read strictly and believed no further than for this project's own result.
 *
 * The agent asks, the process answers each question once: with `value`, or with `problem` when the project
 * is at fault, or with `fault` when something else is.
 */

export type Question =
  /** Unpacks an archive. `bundle`: of a user; refused as a whole when anything in it is not safe. */
  | { do: 'unpack'; archive: string; into: string; kind: 'bundle' | 'dependencies' }
  /** What project this is. */
  | {
      do: 'look';
      root: string;
      workingDir: string;
      configPath: string | null;
      testCommand: string;
      installCommand: string | null;
    }
  /** Which Playwright is installed there. */
  | { do: 'playwright'; root: string; workingDir: string }
  /** Writes a config beside the project's own that adds what a check needs. */
  | { do: 'wrap'; config: string; additions: string; options: WrapperOptions }
  /** Lets the programs of an installation be started. */
  | { do: 'programs'; root: string }
  /** Runs a command of the project to its end. */
  | { do: 'run'; command: string; cwd: string; env: Record<string, string> }
  /** Asks the process of that number to end by itself. */
  | { do: 'interrupt'; pid: number }
  /** Packs what was added below `root` since the project was unpacked. */
  | { do: 'pack'; root: string; into: string }
  /** Downloads a package of a registry and unpacks it. */
  | {
      do: 'package';
      name: string;
      version: string;
      registry: string;
      integrity: string | null;
      into: string;
    };

export type Asked = Question & { n: number };

export type Answered =
  | { n: number; value: unknown }
  | { n: number; problem: { code: string; message: string } }
  | { n: number; fault: string };

export interface WrapperOptions {
  /** Of our reporter. */
  reporter: string;
  /** Where the reporter writes. */
  events: string;
  /** Folder for reports. */
  out: string;
  workers: number;
  /** A part of a suite leaves a report that can be merged. */
  blob: string | null;
}

export interface Project {
  packageManager: {
    name: 'npm' | 'pnpm' | 'yarn' | 'bun';
    version: string | null;
    isBerry: boolean;
    pnp: boolean;
  };
  /** Folder of the lock file, from the root. */
  lockFolder: string;
  /** As the project's files say it: `22`, `>=20`, `lts/*`. */
  engine: { name: 'node' | 'bun'; range: string; saidBy: string } | null;
  /** By the lock file; null when it is not to be found there. */
  playwrightVersion: string | null;
  /** From the root. */
  config: string;
  /** Of everything that decides what an installation makes, unless code of the project does, too. */
  dependenciesHash: string;
  /** Files of the project beyond those may decide it as well. */
  installsByOwnCode: boolean;
}

export interface InstalledPlaywright {
  version: string;
  /** Browsers with the revision that this version wants. */
  browsers: { name: string; revision: string }[];
}

export interface Ended {
  code: number | null;
  signal: string | null;
}
