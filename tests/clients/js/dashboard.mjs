// Drives one page of a headless Chromium for tests/dashboard: each line of the input is a command, as JSON {"do", ...};
// each line of the output is its answer: {"value"} or {"error"}. `said` gives what the console has said since.
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {createInterface} from 'node:readline';

import {chromium} from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
// One process shows all pages: each new one would start an engine of its own.
const args = ['--no-sandbox', '--disable-gpu', '--renderer-process-limit=1', '--disable-site-isolation-trials'];
const browser = await chromium.launch({executablePath: process.argv[2], headless: true, args});
let said = [];
let page = await newPage();

// With a storage of its own; what flows on the map would have it drawn sixty times a second.
async function newPage() {
  const made = await browser.newPage({viewport: {width: 1280, height: 860}, reducedMotion: 'reduce'});
  made.setDefaultTimeout(20_000);
  made.on('console', (message) => { if (['error', 'warning'].includes(message.type())) said.push(message.text()); });
  made.on('pageerror', (error) => said.push(String(error)));
  return made;
}

const commands = {
  init: ({code}) => page.addInitScript(code),
  anew: async () => { await page.close(); said = []; page = await newPage(); },
  leave: async () => { await page.goto('about:blank'); said = []; },
  // An address that differs only behind its # would load nothing.
  open: async ({url}) => {
    if (page.url().split('#')[0] !== url.split('#')[0]) return page.goto(url);
    await page.evaluate((u) => history.replaceState(null, '', u), url);
    return page.reload();
  },
  // Not at every frame, which is Playwright's default: each look lays the page out.
  wait: ({text}) => page.waitForFunction((t) => document.body.innerText.includes(t), text, {polling: 100}),
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
    if (['anew', 'init', 'leave', 'open', 'wait', 'holds', 'shot'].includes(command.do)) answer = {value: null};
  } catch (error) {
    answer = {error: String(error)};
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
