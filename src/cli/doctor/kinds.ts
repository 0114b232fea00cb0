/** Kinds of checks as their users call them. */
export const BROWSER_CHECKS = 'BROWSER';
export const SCRIPT_CHECKS = 'MULTI_STEP';
export const API_SCRIPTS = 'API with scripts';
export const ICMP_CHECKS = 'ICMP';
