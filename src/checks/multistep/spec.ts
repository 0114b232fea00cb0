import { z } from 'zod';
import { scriptFields } from '../script-fields.ts';

export const MultistepFields = z.strictObject(scriptFields);
