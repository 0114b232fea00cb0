import { ON_THE_HOST } from './settings.ts';
import { testBattery } from './table.ts';

testBattery(ON_THE_HOST);
