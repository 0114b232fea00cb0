// Right but slow: the check is shown as degraded when the API takes longer than it should.
import { expect, test } from '@playwright/test';
import { getAPIResponseTime, markCheckAsDegraded } from '@vedette/playwright-helpers';

const BUDGET_MS = 200;

test('the slow answer arrives', async ({ request }) => {
  const response = await request.get(`${process.env.SITE_URL}/slow`, { params: { ms: 300 } });
  await expect(response).toBeOK();
  const ms = getAPIResponseTime(response);
  if (ms !== null && ms > BUDGET_MS) markCheckAsDegraded(`the answer took more than ${BUDGET_MS} ms`);
});
