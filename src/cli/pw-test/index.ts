/**
 * `vedette pw-test`: the Playwright project of this folder, run once by an agent. It hides what goes into the
 * archive and how equal projects become equal archives, the test session with its log, and what is
 * brought back. Nothing of the project runs on this machine, but for the merge of reports of a suite in parts.
 */
import { hostname } from 'node:os';
import { relative, resolve } from 'node:path';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import type { Invocation } from '../command.ts';
import { cacheHash } from './cache-hash.ts';
import { findConnection } from './connection.ts';
import { findFiles } from './files.ts';
import { follow } from './follow.ts';
import { commitOf } from './git.ts';
import { readPlan } from './plan.ts';
import { megabytes, pack } from './pack.ts';
import { findConfig, findProject } from './project.ts';
import { assertReplaceable, bringBack } from './report.ts';
import { SessionClient } from './session-client.ts';
import { summary } from './summary.ts';

export async function pwTest(invocation: Invocation): Promise<ExitCode> {
  try {
    return await run(invocation);
  } catch (error) {
    // Whoever pressed Ctrl-C knows why it ended.
    if (!invocation.shutdown.drain.aborted || error instanceof FatalError) throw error;
    console.log('cancelled');
    return ExitCode.checkFailed;
  }
}

async function run(invocation: Invocation): Promise<ExitCode> {
  const { env, shutdown } = invocation;
  const plan = readPlan(invocation);
  const folder = process.cwd();
  const project = await findProject(folder);
  const config = findConfig(folder, plan.configPath);
  const report = resolve(folder, plan.report);
  await assertReplaceable(report);
  const connection = await findConnection(folder, plan, env);
  const client = new SessionClient(connection);
  const location = await client.chooseLocation(connection.location);
  const signal = shutdown.drain;

  const files = await findFiles(project, { include: plan.include, without: report }, { env, signal });
  const bundle = await pack(project.root, files);
  const workingDir = relative(project.root, folder);
  console.log(`${files.length} files, ${megabytes(bundle.byteLength)}, from ${project.root}`);
  const codeBundlePath = await client.upload(bundle, signal);
  const commit = await commitOf(project.root, { env, signal });
  signal.throwIfAborted();
  const session = await client.start({
    name: plan.name ?? project.name,
    checkRunJobs: [
      {
        checkType: 'PLAYWRIGHT',
        logicalId: 'pw-test',
        name: plan.name ?? project.name,
        codeBundlePath,
        testCommand: plan.testCommand,
        configPath: plan.configPath,
        ...(workingDir === '' ? {} : { workingDir }),
        cacheHash: await cacheHash(project.root, project.lockFile, files),
        environmentVariables: plan.variables,
        ...plan.fields,
      },
    ],
    project: { logicalId: project.name },
    runLocation: location,
    ...(commit === null ? {} : { repoInfo: commit }),
    environment: env['SERVICE_TEST_ENVIRONMENT'] ?? hostname(),
    shouldRecord: plan.record,
    streamLogs: true,
    refreshCache: plan.refreshCache,
  });
  console.log(`test session ${session.testSessionId} at ${location}\n`);
  const ended = await follow(client, session, shutdown, location);
  if (ended === null) return ExitCode.checkFailed;
  const kept = await bringBack(client, session, report, {
    cwd: folder,
    config,
    env,
    signal: shutdown.kill,
  });
  console.log(summary(ended, await client.result(session), kept, plan.report));
  return ended.status === 'PASSED' ? ExitCode.done : ExitCode.checkFailed;
}
