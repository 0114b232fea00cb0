import { createScrubber, secretsOf, type Scrubber } from '../../agent/scrub/index.ts';
import { ExitCode, FatalError } from '../../kit/errors.ts';
import type { Environment } from '../../kit/settings.ts';
import { VERSION } from '../../kit/version.ts';
import type { Invocation, OptionValue } from '../command.ts';
import { examine, type Examined } from './examine.ts';
import type { Hop } from './hop.ts';
import { hops } from './hops.ts';
import { conclusion, exitCodeOf, hopText, notServedBy } from './report.ts';
import { Site } from './site.ts';

/** `vedette doctor`: what an agent with this environment would find on this machine. */
export async function doctor({ options, env, shutdown }: Invocation): Promise<ExitCode> {
  const chosen = chosenHops(options['skip']);
  await using site = new Site(env);
  const scrubber = scrubberFor(site, env);
  const isJson = options['json'] === true;
  const print = (text: string): void => console.log(scrubber.text(text));
  if (!isJson) print(`vedette doctor ${VERSION}\n`);
  const examined: Examined[] = [];
  for await (const each of examine(chosen, site, shutdown.drain)) {
    examined.push(each);
    if (!isJson) print(hopText(each));
  }
  if (shutdown.drain.aborted) throw new FatalError(ExitCode.internal, 'doctor: stopped before the end');
  const exitCode = exitCodeOf(examined);
  if (isJson) print(asJson(examined, exitCode));
  else print(`\n${conclusion(examined, exitCode)}`);
  return exitCode;
}

/** @throws FatalError that names the hops there are */
function chosenHops(skip: OptionValue): readonly Hop[] {
  const left = typeof skip === 'string' ? skip.split(',').map((name) => name.trim()) : [];
  const unknown = left.find((name) => hops.every((hop) => hop.name !== name));
  if (unknown !== undefined) {
    const known = hops.map(({ name }) => name).join(', ');
    throw new FatalError(ExitCode.usage, `--skip: there is no step '${unknown}'; there are ${known}`);
  }
  return hops.filter(({ name }) => !left.includes(name));
}

function asJson(examined: readonly Examined[], exitCode: ExitCode): string {
  const shown = examined.map(({ name, ms, finding: { state, found, remedy } }) => ({
    name,
    state,
    found,
    remedy: remedy ?? null,
    ms,
  }));
  const ok = exitCode === ExitCode.done;
  const notServed = notServedBy(examined);
  return JSON.stringify({ version: VERSION, ok, exitCode, notServed, hops: shown }, null, 2);
}

/** The key and the credentials of proxies, also where the rest of a setting is wrong. */
function scrubberFor({ settings }: Site, env: Environment): Scrubber {
  const key = settings.apiKey ?? env['API_KEY'];
  const names = ['HTTPS_PROXY', 'HTTP_PROXY'].flatMap((name) => [name, name.toLowerCase()]);
  const addresses = [settings.httpsProxy, settings.httpProxy, ...names.map((name) => env[name])];
  const own = key === undefined ? [] : [key];
  return createScrubber(addresses.flatMap((url) => secretsOf({ spec: {}, proxyUrl: url ?? null }, own)));
}
