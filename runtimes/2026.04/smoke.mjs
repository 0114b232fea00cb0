import { smoke } from '../smoke.mjs';

await smoke(import.meta.url, (name) => import(name));
