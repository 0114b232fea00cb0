exports.retries = 1;
