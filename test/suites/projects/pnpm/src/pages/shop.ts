import type { Page } from '@playwright/test';

export class Shop {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }
  async open(items: number): Promise<void> {
    const list = Array.from({ length: items }, (_, i) => `<li>Item ${i + 1}</li>`).join('');
    await this.page.setContent(`<ul>${list}</ul>`);
  }
}
