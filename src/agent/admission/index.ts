/**
 * Decides how many runs may be under way: the CPUs, the memory and the processes that the control
 * groups (v1 or v2) of this agent really leave, capped by JOB_CONCURRENCY. Hides where the kernel keeps
 * those numbers and how often they are read. Light runs (many in one probe process) are counted here;
 * a heavy class gets its own line in `planLanes` with its own cost.
 */
export { Admission, planLanes, type LanePlan } from './admission.ts';
export { readMachine, type Machine } from './cgroup.ts';
