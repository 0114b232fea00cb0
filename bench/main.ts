import { startBlackbox } from './blackbox.ts';
import { benchAgent } from './agent.ts';
import { benchArtifacts } from './artifacts.ts';
import { benchBrowser } from './browser.ts';
import { benchQueue } from './queue.ts';
import { printRows, type Row } from './report.ts';
import { benchScrub } from './scrub.ts';
import { benchSuites } from './suites.ts';
import { sizing } from './sizing.ts';
import { soak } from './soak.ts';
import { suitesLanes } from './suites-lanes.ts';
import { suitesSoak } from './suites-soak.ts';
import { missingPrograms, startTargets } from './targets.ts';
import { benchDistortion, benchUptime, ProbeProcess } from './uptime.ts';

/**
 * `npm run bench [part …]`: parts are uptime, distortion, queue, agent, scrub, artifacts, browser, and sizing,
 * soak, suites, suites-soak and suites-lanes, which run only when they are named. Both sides of a ratio are
 * measured in the same run on the same machine; only
 * ratios are comparable between machines.
 */
const wanted = process.argv.slice(2);
const runs = (part: string): boolean => wanted.length === 0 || wanted.includes(part);
const rows: Row[] = [];

if (runs('uptime') || runs('distortion')) rows.push(...(await benchProbes()));
if (runs('queue')) rows.push(...(await benchQueue()));
if (runs('agent')) rows.push(...(await benchAgent()));
if (runs('scrub')) rows.push(...benchScrub());
if (runs('artifacts')) rows.push(...(await benchArtifacts()));
if (runs('browser')) rows.push(...(await benchBrowser()));
if (wanted.includes('suites')) rows.push(...(await benchSuites()));
if (rows.length > 0) printRows(rows);
if (wanted.includes('sizing')) await sizing();
if (wanted.includes('soak') && !(await soak())) process.exitCode = 1;
if (wanted.includes('suites-soak') && !(await suitesSoak())) process.exitCode = 1;
if (wanted.includes('suites-lanes') && !(await suitesLanes())) process.exitCode = 1;

async function benchProbes(): Promise<Row[]> {
  const missing = missingPrograms();
  if (missing.length > 0) {
    console.log(`uptime and distortion skipped: not installed: ${missing.join(', ')}`);
    return [];
  }
  const targets = await startTargets();
  const probe = new ProbeProcess(targets.caFile);
  const peer = await startBlackbox(targets.caFile);
  try {
    if (peer === undefined)
      console.log('no peer: the Debian package prometheus-blackbox-exporter is not installed');
    const found: Row[] = [];
    if (runs('uptime') && peer !== undefined) found.push(...(await benchUptime(targets, probe, peer)));
    if (runs('distortion') && targets.slow === undefined) {
      console.log('distortion skipped: the Debian package libnginx-mod-http-echo is not installed');
    } else if (runs('distortion') && targets.slow !== undefined) {
      found.push(...(await benchDistortion(targets.slow, probe, peer)));
    }
    return found;
  } finally {
    probe.stop();
    await peer?.stop();
    targets.stop();
  }
}
