import type { Socket } from 'node:net';

/**
 * Joins two connections until both directions have ended. An end passes as an end, a reset as a reset; what
 * one side does not read, the other is not asked for.
 */
export function splice(client: Socket, target: Socket): void {
  join(client, target);
  join(target, client);
}

function join(from: Socket, to: Socket): void {
  from.pipe(to);
  from.on('error', () => to.resetAndDestroy());
  from.once('close', () => {
    // An end that came before is still being sent.
    if (!from.readableEnded) to.resetAndDestroy();
  });
}
