// Drives a headless Chromium for tests/security/test_browser.py: each line of the input names a page to open, as JSON
// {"url"}; each line of the output says what became of it: {"result": window.result, "answers": {url: status}, "said"}.
import {createInterface} from 'node:readline';

import {chromium} from 'playwright-core';

const [executablePath, rules, userDataDir] = process.argv.slice(2);
const WITHIN_MS = 15_000;

const context = await chromium.launchPersistentContext(userDataDir, {
  executablePath,
  headless: true,
  serviceWorkers: 'allow',
  args: [
    '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync', `--host-resolver-rules=${rules}`,
  ],
});

async function visit({url}) {
  const page = await context.newPage();
  const answers = {};
  const said = [];
  page.on('response', (response) => { answers[`${response.request().method()} ${response.url()}`] = response.status(); });
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  try {
    const answer = await page.goto(url, {timeout: WITHIN_MS});
    const text = await page.content();
    let result = null;
    if (text.includes('window.result')) {
      await page.waitForFunction(() => window.result !== undefined, null, {timeout: WITHIN_MS});
      result = await page.evaluate(() => window.result);
    }
    return {status: answer.status(), text, result, answers, said};
  } catch (error) {
    return {error: String(error), answers, said};
  } finally {
    await page.close();
  }
}

for await (const line of createInterface({input: process.stdin})) {
  process.stdout.write(`${JSON.stringify(await visit(JSON.parse(line)))}\n`);
}
await context.close();
