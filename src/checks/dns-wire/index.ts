/**
 * DNS messages and their transport: names, queries, answers, records in presentation format, and one
 * question put to one server over UDP or TCP. Hides compression, escapes, EDNS, retransmission and
 * which packets are believed. A decoder of our own, because dig's text needs every byte of a name and
 * the bounds of each record, which the common library drops; tests compare both.
 */
export { BadName, encodeName, sameName, toAscii } from './name.ts';
export { decodeMessage, encodeQuery, MalformedMessage } from './message.ts';
export type { DnsMessage, DnsRecord, Question, Query } from './message.ts';
export { rdataText, txtContent } from './rdata.ts';
export { className, opcodeName, rcodeName, RCODE, TYPE, typeName } from './codes.ts';
export { askTcp, askUdp, ExchangeError, parseServer, serverText } from './exchange.ts';
export type { Reply, ServerAddress } from './exchange.ts';
