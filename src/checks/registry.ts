import type { CheckType } from './check-type.ts';
import { api } from './api/index.ts';
import { browser } from './browser/index.ts';
import { dns } from './dns/index.ts';
import { icmp } from './icmp/index.ts';
import { multistep } from './multistep/index.ts';
import { playwright } from './playwright/index.ts';
import { tcp } from './tcp/index.ts';
import { url } from './url/index.ts';

/** One line per check type; nothing else lists the types. Runners load on first use. */
const types: readonly CheckType[] = [api, browser, dns, icmp, multistep, playwright, tcp, url];

const byName = new Map(types.map((type) => [type.name, type]));

export const checkTypes = (): readonly CheckType[] => types;
export const findCheckType = (name: string): CheckType | undefined => byName.get(name);
