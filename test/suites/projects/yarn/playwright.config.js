const { defineConfig } = require('@playwright/test');
const { retries } = require('./settings');

module.exports = defineConfig({ testDir: 'e2e', retries, workers: 2 });
