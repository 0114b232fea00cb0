import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { onTestFailed } from 'vitest';
import { demoChecks } from '../../src/cli/demo-checks.ts';
import { demoSite } from '../../src/cli/demo-site/index.ts';
import { DEMO_HOST } from '../../src/cli/demo-target.ts';
import { startDnsServer } from '../support/dns-server.ts';
import { serviceEnvironment, startVedette, statusOf, type VedetteProcess } from '../support/processes.ts';
import { waitUntil } from '../support/programs.ts';
import { makeLocation, restOf, type PrivateLocation, type Rest } from '../support/rest.ts';
import { freePort, listenOn } from '../support/targets/ports.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { docker } from './base.ts';

/** Where containers reach this machine: its end of Docker's own bridge. Nobody outside gets there. */
export function bridgeAddress(): string {
  const gateway = '{{(index .IPAM.Config 0).Gateway}}';
  return docker('network', 'inspect', 'bridge', '--format', gateway).stdout.trim();
}

/** A service on the bridge, with one location, whose data outlive it. */
export class Scene {
  readonly host = bridgeAddress();
  readonly rest: Rest;
  readonly url: string;
  readonly #port: number;
  readonly #folder = temporaryFolder();
  readonly #settings: Record<string, string>;
  location: PrivateLocation | undefined;
  #service: VedetteProcess | undefined;

  private constructor(port: number, settings: Record<string, string>) {
    this.#port = port;
    this.#settings = settings;
    this.url = `http://${this.host}:${port}`;
    this.rest = restOf(this.url);
  }

  static async start(settings: Record<string, string> = {}): Promise<Scene> {
    const scene = new Scene(await freePort(bridgeAddress()), settings);
    await scene.startService();
    scene.location = await makeLocation(scene.rest, 'here');
    return scene;
  }

  async startService(): Promise<void> {
    const keeping = { dataDir: this.#folder.path, databaseUrl: undefined };
    const settings = { SERVICE_HOST: this.host, ...this.#settings };
    const service = startVedette(['service'], serviceEnvironment(keeping, this.#port, settings));
    this.#service = service;
    await waitUntil(
      async () => {
        if (service.child.exitCode !== null) throw new Error(`the service ended: ${service.output()}`);
        return (await statusOf(`${this.url}/-/readiness`)) === 200;
      },
      30_000,
      'a service that is ready',
    );
  }

  async killService(): Promise<void> {
    await this.#service?.kill();
  }

  /** What the service said, should the test fail. */
  tellOnFailure(): void {
    onTestFailed(() => console.log(this.#service?.output().slice(-3000)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service?.stop();
    this.#folder[Symbol.dispose]();
  }
}

/** The demo's targets where containers reach them. */
export interface Targets extends AsyncDisposable {
  /** One check of each type, and one API check with scripts, none of them active. */
  definitions(location: string): { name: string; path: string; definition: object }[];
}

export async function startTargets(host: string): Promise<Targets> {
  const http = createHttpServer(demoSite());
  const tcp = createTcpServer((socket) => void socket.on('error', () => undefined).pipe(socket));
  const dns = await startDnsServer(
    ({ name }) => ({ answers: [{ type: 'A', name, ttl: 60, data: host }] }),
    host,
  );
  const ports = { http: await listenOn(http, host), tcp: await listenOn(tcp, host), dns: dns.port };
  return {
    definitions: (location) => {
      const text = JSON.stringify(demoChecks(ports, location)).replaceAll(DEMO_HOST, host);
      const demo = (JSON.parse(text) as ReturnType<typeof demoChecks>).filter(({ key }) => key !== 'outage');
      const api = demo.find(({ key }) => key === 'api')!;
      const scripted = {
        ...api,
        key: 'scripted api',
        definition: {
          ...api.definition,
          localSetupScript: "request.headers['x-made-by'] = 'a script';",
          localTearDownScript: "if (response.statusCode !== 200) throw new Error('not 200');",
        },
      };
      return [...demo, scripted].map(({ key, path, definition }) => ({
        name: key,
        path,
        definition: { ...definition, activated: false, doubleCheck: false },
      }));
    },
    [Symbol.asyncDispose]: async () => {
      http.closeAllConnections();
      await Promise.all([...[http, tcp].map((server) => once(server.close(), 'close')), dns.close()]);
    },
  };
}
