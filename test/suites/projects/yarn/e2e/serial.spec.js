const { test, expect } = require('@playwright/test');

test.describe.serial('in order', () => {
  let seen = 0;
  test('first', () => {
    seen++;
  });
  test('second fails', () => {
    expect(seen).toBe(2);
  });
  test('third never runs', () => {});
});
