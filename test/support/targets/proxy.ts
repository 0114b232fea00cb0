import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startProgram, type RunningProgram } from '../programs.ts';
import { accepts, freePort } from './ports.ts';

export interface Proxy extends RunningProgram {
  port: number;
}

/** Starts tinyproxy; it allows CONNECT to every port. `auth` as `user password`. */
export async function startProxy(
  folder: string,
  auth?: { username: string; password: string },
): Promise<Proxy> {
  const port = await freePort();
  const config = join(folder, `tinyproxy-${port}.conf`);
  writeFileSync(
    config,
    `Port ${port}\nListen 127.0.0.1\nTimeout 30\nLogLevel Error\nMaxClients 50\nAllow 127.0.0.1\n` +
      (auth ? `BasicAuth ${auth.username} ${auth.password}\n` : ''),
  );
  const running = await startProgram('tinyproxy', ['-d', '-c', config], () => accepts(port));
  return Object.assign(running, { port });
}
