/**
 * `vedette doctor`: tries everything that an agent needs, one hop after the other, by the code that the
 * agent itself uses, and says of each what was found, and what to change. Hides the order of the hops, which
 * of them make no sense after another has failed, how long each may take, and that no secret is printed.
 */
export { doctor } from './doctor.ts';
