import type { OpenGate } from '../egress/index.ts';
import type { Permission } from '../sandbox/index.ts';
import type { Browsers } from './browsers.ts';
import type { Bundles } from './bundles.ts';
import type { Dependencies } from './dependencies.ts';
import type { Engines } from './engines.ts';
import type { PostLogText } from './live-log.ts';
import type { Toolbox } from './toolbox.ts';

/** What every run uses. */
export interface SuiteServices {
  bundles: Bundles;
  dependencies: Dependencies;
  toolbox: Toolbox;
  engines: Engines;
  browsers: Browsers;
  /** @param allowed beyond the policy */
  openGate(allowed: string): Promise<OpenGate | null>;
  /** Registries and proxies, for the policy. */
  installTargets: string;
  /** The agent's own proxy for the registry of packages; null where it needs none. */
  registryProxy: string | null;
  /** Folders of programs. */
  readable(): string[];
  packageVariables: Record<string, string>;
  runsInstallScripts: boolean;
  postLog: PostLogText;
  ownSecrets: readonly string[];
  /** PEM file with authorities besides Node's, as it is now. */
  extraCaCerts: string | undefined;
  /** The same and those of the machine for Chromium. */
  browserAuthorities(): string | undefined;
  /** That the agent may use. */
  processors: number;
  may: readonly Permission[];
}
