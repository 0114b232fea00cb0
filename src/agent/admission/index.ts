/**
 * Decides how many runs may be under way: the CPUs, the memory and the processes that the control
 * groups (v1 or v2) of this agent really leave, by class of run and capped by JOB_CONCURRENCY. Hides where
 * the kernel keeps those numbers, how often they are read, what a run of each class costs, and the memory
 * that is promised to runs which have not taken it yet.
 */
export { Admission, planLanes, type Heavy, type HeavyClass, type LanePlan } from './admission.ts';
export { readMachine, type Machine } from './cgroup.ts';
