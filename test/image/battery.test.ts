import { IN_DOCKER } from '../hostile/settings.ts';
import { testBattery } from '../hostile/table.ts';

testBattery(IN_DOCKER);
