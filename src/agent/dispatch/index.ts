/**
 * The runs that this agent holds: what it takes of an offer, their leases, and how each ends. Hides
 * duplicate and stale offers, the self-fence (a run is ended here before anyone else may start it), a
 * machine that was asleep, cancelling, giving back, and the rule that a result is on disk before its
 * place is free again.
 */
export { Dispatcher, type DispatcherOptions } from './dispatcher.ts';
export { LeaseClock } from './lease-clock.ts';
export { cancelledReport, faultReport } from './result.ts';
