/**
 * Whom this agent trusts: the authorities that Node brings along, those of the machine, and the PEM file in
 * NODE_EXTRA_CA_CERTS, for the service as for targets, in every process and browser. Hides that a file which
 * is half written or gone changes nothing, the copies that children read, and the database in which Chromium
 * looks for authorities of its user.
 */
export { Authorities } from './authorities.ts';
