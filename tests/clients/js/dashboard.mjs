// Drives one page of a headless Chromium for tests/dashboard: each line of the input is a command, as JSON {"do", ...};
// each line of the output is its answer: {"value"} or {"error"}. `said` gives what the console has said since.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createInterface} from 'node:readline';

import {chromium} from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.launch({executablePath: process.argv[2], headless: true, args: ['--no-sandbox', '--disable-gpu']});
const page = await browser.newPage({viewport: {width: 1280, height: 860}});
page.setDefaultTimeout(20_000);
let said = [];
page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) said.push(message.text()); });
page.on('pageerror', (error) => said.push(String(error)));

// Processor time of the page's main thread, so that what else the machine does is not measured.
let tracing = null;
const cpuMs = async () => {
  if (!tracing) {
    tracing = await page.context().newCDPSession(page);
    await tracing.send('Performance.enable', {timeDomain: 'threadTicks'});
  }
  const {metrics} = await tracing.send('Performance.getMetrics');
  return 1000 * metrics.find((one) => one.name === 'TaskDuration').value;
};

const commands = {
  cpu: cpuMs,
  init: ({code}) => page.addInitScript(code),
  open: ({url}) => page.goto(url),
  // Not at every frame, which is Playwright's default: each look lays the page out.
  wait: ({text}) => page.waitForFunction((t) => document.body.innerText.includes(t), text, {polling: 50}),
  // Asked from here: the page's policy lets no text become code.
  holds: async ({code}) => {
    for (let tries = 0; tries < 400; tries += 1) {
      if (await page.evaluate(code)) return;
      await page.waitForTimeout(50);
    }
    throw new Error(`never held: ${code}`);
  },
  eval: ({code}) => page.evaluate(code),
  press: ({key}) => page.keyboard.press(key),
  click: ({selector}) => page.click(selector),
  fill: ({selector, text}) => page.fill(selector, text),
  shot: ({path}) => page.screenshot({path}),
  dark: ({on}) => page.emulateMedia({colorScheme: on ? 'dark' : 'light'}),
  size: ({width, height}) => page.setViewportSize({width, height}),
  said: () => { const all = said; said = []; return all; },
  axe: async ({rules}) => {
    await page.evaluate(axe);
    const {violations} = await page.evaluate(
      (rules) => window.axe.run({resultTypes: ['violations'], ...(rules && {runOnly: {type: 'rule', values: rules}})}), rules,
    );
    return violations.filter((one) => ['serious', 'critical'].includes(one.impact))
      .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(' | ')}`);
  },
};

for await (const line of createInterface({input: process.stdin})) {
  const command = JSON.parse(line);
  let answer;
  try {
    const value = await commands[command.do](command);
    answer = {value: value === undefined || typeof value === 'function' || value?.constructor?.name === 'Response' || value?.constructor?.name === 'JSHandle' ? null : value};
    if (['init', 'open', 'wait', 'holds', 'shot'].includes(command.do)) answer = {value: null};
  } catch (error) {
    answer = {error: String(error)};
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
