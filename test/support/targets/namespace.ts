import { lacks, mustRun, runProgram } from '../programs.ts';
import { lacksIpv6 } from './ports.ts';

/** A network namespace of its own. Programs are started in it through `within`. */
export interface NetworkNamespace extends AsyncDisposable {
  /** Put before a command: `['ip', 'netns', 'exec', …]`. */
  within: readonly string[];
  stop(): Promise<void>;
}

let count = 0;

/** Why this process cannot make network namespaces; undefined when it can. */
export async function lacksNamespaces(): Promise<string | undefined> {
  try {
    // Making one is not enough: in a chroot, entering it fails.
    await using _made = await startCutOff();
    return undefined;
  } catch {
    return lacks('ip') ?? 'network namespaces need root with CAP_SYS_ADMIN';
  }
}

async function makeNamespace(setUp: readonly string[]): Promise<NetworkNamespace> {
  const name = `vedette-${process.pid}-${++count}`;
  await mustRun('ip', ['netns', 'add', name]);
  const within = ['ip', 'netns', 'exec', name];
  const stop = async (): Promise<void> => void (await runProgram('ip', ['netns', 'delete', name]));
  try {
    for (const command of setUp) await mustRun('ip', ['netns', 'exec', name, ...command.split(' ')]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { within, stop, [Symbol.asyncDispose]: stop };
}

/** A machine whose cable is out: only loopback, no route anywhere. */
export const startCutOff = (): Promise<NetworkNamespace> => makeNamespace(['ip link set lo up']);

/** Neighbours of `startVoid` that swallow every packet. */
export const VOID_ADDRESS = '10.99.0.2';
export const VOID_ADDRESS_6 = 'fd99::2';

const VOID_6 = [
  'ip address add fd99::1/64 dev near nodad',
  `ip neighbour add ${VOID_ADDRESS_6} lladdr 02:00:00:00:00:02 dev near`,
];

/**
 * A network whose neighbours never answer: packets leave through a cable that ends nowhere. Static
 * neighbour entries spare the address resolution, whose failure the kernel would report.
 */
export const startVoid = (): Promise<NetworkNamespace> =>
  makeNamespace([
    'ip link set lo up',
    'ip link add near type veth peer name far',
    'ip address add 10.99.0.1/24 dev near',
    'ip link set near up',
    'ip link set far up',
    `ip neighbour add ${VOID_ADDRESS} lladdr 02:00:00:00:00:02 dev near`,
    ...(lacksIpv6 === undefined ? VOID_6 : []),
  ]);
