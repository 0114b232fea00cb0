import type { Command } from './command.ts';

/** Every command of `vedette`; help, README.md and the dispatch in main.ts come from this list. */
export const commands: readonly Command[] = [
  {
    name: 'up',
    summary: 'service, one agent, a demo target and example checks on this machine',
    operands: [],
    options: {
      'data-dir': { type: 'string', value: 'DIR', meaning: 'where everything is kept (default .vedette)' },
      port: { type: 'string', value: 'PORT', meaning: 'port of the service (default 3000)' },
      'health-port': {
        type: 'string',
        value: 'PORT',
        meaning: "port of the agent's health endpoints (default AGENT_HEALTH_PORT, else 8081)",
      },
      'no-examples': { type: 'boolean', meaning: 'no demo target and no example checks' },
      'no-runtime': { type: 'boolean', meaning: 'install no runtime where there is none' },
    },
    details: `Listens on 127.0.0.1 only. The first start creates an account, an API key, a private location and
one example check per type, and prints the key; credentials.json in the data folder keeps it.
Later starts continue with the same data. Where no runtime for scripts is there, the default one is
installed in the background; 'vedette help runtime' says more. Ctrl-C drains the agent and ends
everything; a second Ctrl-C does not wait for running checks.`,
    load: async () => (await import('./up.ts')).up,
  },
  {
    name: 'agent',
    summary: 'the agent alone, configured by environment',
    operands: [],
    options: {
      once: { type: 'string', value: 'N', bare: '1', meaning: 'take at most N runs (1), then drain and end' },
      wait: {
        type: 'string',
        value: 'SECONDS',
        meaning: 'with --once: end when no run came for so long (default: wait)',
      },
    },
    details: `Needs API_KEY (the key of a private location) and AGENT_SERVICE_URL. A .env file in the working
folder is read too, the environment wins. Each setting can be given as a file: NAME_FILE=/path.
SIGTERM finishes what runs and exits 0; a second one gives running checks back to the service at once.
'vedette doctor' tries whether an agent can work here.

Examples:
  API_KEY=pl_… AGENT_SERVICE_URL=https://monitoring.example vedette agent
  vedette agent --once=10 --wait 60    for jobs of a scheduler: at most ten runs

Exit code: 0 drained, or had its runs, or none came in time; 2 a setting, or the health port is taken;
3 an internal fault; 4 the service refuses the key; 5 with --wait, the service was not reached; 78 another
agent uses the data folder.`,
    settings: async () => (await import('../agent/settings.ts')).agentSettings,
    load: async () => (await import('./agent.ts')).agent,
  },
  {
    name: 'service',
    summary: 'the service alone, configured by environment',
    operands: [],
    options: {},
    details: `Keeps its data in PostgreSQL when DATABASE_URL is set, else in an embedded store. The first
start creates an account and prints its API key once, on standard error.

Example:
  DATABASE_URL=postgres://vedette:secret@db.example/vedette vedette service

Exit code: 0 stopped; 2 a setting; 3 an internal fault; 78 the store refuses to start.`,
    settings: async () => (await import('../service/settings.ts')).serviceSettings,
    load: async () => (await import('./service.ts')).service,
  },
  {
    name: 'doctor',
    summary: 'tries everything an agent needs here, and says what to change',
    operands: [],
    options: {
      json: { type: 'boolean', meaning: 'print everything as one JSON object' },
      skip: { type: 'string', value: 'STEPS', meaning: 'leave out these, separated by commas' },
    },
    details: `Reads the settings of 'vedette agent' from the same places, and tries, one after the other: settings,
authorities, name, connection, proxy, tls, service, key, websocket, clock, data-folder, health-port,
machine, sandbox, probes, target-names, icmp, runtimes, scripts, browser, suite-tools, npm-registry.
It takes no run from the service, and may run beside an agent. Takes seconds; each step has a limit.
A warning is something that the agent does without: it has no exit code.

Examples:
  vedette doctor
  vedette doctor --skip scripts,browser,npm-registry
  docker run --rm -e API_KEY=pl_… -e AGENT_SERVICE_URL=https://… vedette-agent doctor
  kubectl exec deploy/vedette-agent -- vedette doctor --json

Exit code, of the first failure:
  0  no failure
  2  a setting, the file of authorities, the data folder or the health port
  3  this machine: its clock, size, sandbox, processes, ping, browser, registry
  4  the service refuses the key
  5  the service is not reached: name, connection, proxy, TLS, or no service there`,
    load: async () => (await import('./doctor/index.ts')).doctor,
  },
  {
    name: 'run',
    summary: 'runs one check from a file here and now, without a service',
    operands: ['FILE'],
    options: {
      json: { type: 'boolean', meaning: 'print the whole result as JSON' },
      artifacts: {
        type: 'string',
        value: 'DIR',
        meaning: 'keep screenshots, traces and other files there (default: a new temporary folder)',
      },
    },
    details: `FILE holds one check as JSON, as the REST interface takes it, plus "checkType"; '-' reads standard
input. examples/ has one of each type. Exits 0 when the check passed or is degraded, 1 when it
failed, 2 when the file is wrong, 3 when this machine could not observe the target.`,
    load: async () => (await import('./run.ts')).run,
  },
  {
    name: 'pw-test',
    summary: 'runs the Playwright project of this folder on an agent, once',
    operands: ['[PLAYWRIGHT FLAGS…]'],
    passesOnTo: 'Playwright',
    options: {
      location: {
        type: 'string',
        value: 'SLUG',
        meaning: 'private location to run at (default: the only one)',
      },
      shards: { type: 'string', value: 'N', meaning: 'run in so many parts at once, 10 at most' },
      timeout: {
        type: 'string',
        value: 'SECONDS',
        meaning: 'limit of the tests (default 1800, 3600 at most)',
      },
      env: {
        type: 'string',
        value: 'NAME[=VALUE]',
        multiple: true,
        meaning: 'variable of the tests; without a value as it is here; may be repeated',
      },
      secret: {
        type: 'string',
        value: 'NAME[=VALUE]',
        multiple: true,
        meaning: 'the same, masked wherever it shows up',
      },
      include: {
        type: 'string',
        value: 'GLOB',
        multiple: true,
        meaning: 'take files along that git ignores; may be repeated',
      },
      'install-command': {
        type: 'string',
        value: 'COMMAND',
        meaning: "in place of the package manager's install",
      },
      'playwright-version': { type: 'string', value: 'VERSION', meaning: 'of which the browsers are to be' },
      'refresh-cache': { type: 'boolean', meaning: 'install dependencies anew' },
      'no-record': { type: 'boolean', meaning: 'keep the session out of the list of test sessions' },
      name: { type: 'string', value: 'NAME', meaning: "of the session (default: the package's)" },
      report: { type: 'string', value: 'DIR', meaning: 'where report and files go (default vedette-report)' },
      'data-dir': {
        type: 'string',
        value: 'DIR',
        meaning: 'data folder of vedette up (default: .vedette here or above)',
      },
    },
    details: `Start it in the folder with the Playwright config. It packs the project, which are the files that git
does not ignore from the folder with the lock file on (150 MB packed at most), has an agent of a
private location install and run it, prints what Playwright prints, and brings report, traces, videos
and screenshots back. The session is listed by GET /v1/test-sessions.

The service is that of VEDETTE_URL and VEDETTE_API_KEY; without them that of 'vedette up', whose data
folder is found here or above. VEDETTE_LOCATION stands in for --location. Flags behind -- go to
Playwright as they are, but for --reporter, --shard and what needs a screen.

Examples:
  vedette pw-test                                        all tests, at the only location
  vedette pw-test -- --project chromium tests/login      some of them
  vedette pw-test --shards 4 --env BASE_URL=https://staging.example -- --grep @smoke

Ctrl-C cancels the run and brings back what it has found; a second one does not wait for that.
Exit code: 0 all tests passed; 1 not, or cancelled; 2 a mistake in project or command line; 3 an internal
fault; 4 the service refuses the key; 5 the service does not answer.`,
    load: async () => (await import('./pw-test/index.ts')).pwTest,
  },
  {
    name: 'runtime',
    summary: 'installs what scripts run with, or lists it',
    operands: ['ACTION', '[ID…]'],
    options: {
      'no-browser': { type: 'boolean', meaning: 'install no Chromium: for API and multistep checks only' },
      'browser-source': {
        type: 'string',
        value: 'SOURCE',
        meaning: 'take Chromium only from there: playwright (its own builds) or debian (the packages)',
      },
      'headless-only': {
        type: 'boolean',
        meaning: "only Chromium's headless shell: all that agents use which are not root",
      },
      'suite-tools': {
        type: 'string',
        value: 'NAMES',
        meaning: 'bring these too, about 100 MB each, for Playwright suites: bun, node22',
      },
      'no-suites': { type: 'boolean', meaning: 'bring no package managers for Playwright suites' },
      force: { type: 'boolean', meaning: 'install anew what is installed' },
    },
    details: `ACTION is install or list. A runtime is a Node.js, Playwright with its Chromium, and the packages that
scripts may require. install brings the default one, or those that are named, with npm; a running
agent finds them by itself. Chromium is Playwright's own build where it can be downloaded
(PLAYWRIGHT_DOWNLOAD_HOST names a mirror), else the one of this machine. For Playwright suites npm,
pnpm and Yarn come along (50 MB); what suites need besides, the agent fetches when they need it. list
shows what there is and what is installed.`,
    load: async () => (await import('./runtime.ts')).runtime,
  },
];

export const findCommand = (name: string): Command | undefined =>
  commands.find((command) => command.name === name);
