import { at, type Json, type Rendered, type Values } from './chart.ts';

/** One test of one value: what it is set to, what else that needs, where it shows, and as what. */
export interface ValueTest {
  path: string;
  set: unknown;
  also?: Values;
  shows: Lookup;
  /** Null where nothing is to show. */
  as: unknown;
  /** Pods that `restricted` and `baseline` have to refuse, since that is what was asked for. */
  unrestricted?: true;
}

type Lookup = (rendered: Rendered) => Json | undefined;
type Component = 'agent' | 'service';

/** A variable of the container. */
export const env =
  (name: string, component: Component = 'agent'): Lookup =>
  (r) =>
    r.env(name, component);
/** A place in the pod. */
export const pod =
  (path: string, component: Component = 'agent'): Lookup =>
  (r) =>
    r.pod(path, component);
/** A place in the container. */
export const container =
  (path: string, component: Component = 'agent'): Lookup =>
  (r) =>
    r.container(path, component);
/** A place in the Deployment or StatefulSet. */
export const workload =
  (path: string, component: Component = 'agent'): Lookup =>
  (r) =>
    at(r.find('Deployment', component) ?? r.find('StatefulSet', component), path);
/** A place in the only object of a kind. */
export const inKind =
  (kind: string, path: string, component?: Component): Lookup =>
  (r) =>
    at(r.find(kind, component), path);
