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
  /** Folders of programs. */
  readable(): string[];
  processVariables: Record<string, string>;
  packageVariables: Record<string, string>;
  runsInstallScripts: boolean;
  isNetworkFault(printed: string): boolean;
  postLog: PostLogText;
  ownSecrets: readonly string[];
  extraCaCerts: string | undefined;
  workers: number;
  may: readonly Permission[];
}
