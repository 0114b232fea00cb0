export { PlaywrightFields } from '../suite-fields.ts';
