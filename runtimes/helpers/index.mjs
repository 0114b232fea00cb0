import helpers from './index.cjs';

export const { markCheckAsDegraded, getAPIResponseTime } = helpers;
export default helpers;
