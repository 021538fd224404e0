// What every view uses: preact with htm, the API, live readings, formats, and small components.
import {h, render} from './vendor/preact.js';
import {useEffect, useMemo, useRef, useState} from './vendor/hooks.js';
import htm from './vendor/htm.js';
import {signal} from './vendor/signals.js';

export const html = htm.bind(h);
export {h, render, signal, useEffect, useMemo, useRef, useState};

const API = '/_headrace/api';
export const session = signal(null);
export const route = signal([]);
export const resources = signal([]);
export const isListed = signal(false); // whether the first list of resources has arrived
export const refused = signal([]);
export const link = signal('connecting'); // connecting, live, away
export const notice = signal(null);
export const MOST_POINTS = 60;

// --- the API

export async function get(path, params = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== '' && value != null));
  let answer;
  try {
    answer = await fetch(`${API}/${path}${query.size ? `?${query}` : ''}`);
  } catch {
    throw new Error('The server does not answer.');
  }
  const value = await answer.json().catch(() => ({message: `The server answered ${answer.status}.`}));
  if (!answer.ok) throw Object.assign(new Error(value.message || `The server answered ${answer.status}.`), {value});
  return value;
}

export async function post(name, value) {
  const send = () =>
    fetch(`${API}/${name}`, {
      method: 'POST',
      headers: {'Content-Type': 'application/json', 'X-Headrace-Token': session.value.token},
      body: JSON.stringify(value),
    });
  let answer = await send();
  if (answer.status === 403) {
    // the server was started again meanwhile
    session.value = await get('session');
    answer = await send();
  }
  const given = await answer.json();
  if (!answer.ok) throw new Error(given.message || `The server answered ${answer.status}.`);
  return given;
}

export async function tell(work, done) {
  try {
    const value = await work();
    notice.value = {text: typeof done === 'function' ? done(value) : done, isBad: false};
    return value;
  } catch (error) {
    notice.value = {text: error.message, isBad: true};
    return null;
  }
}

// --- live readings: a signal for each resource, so that a second's change draws only its own row

const live = new Map();
export const shardReadings = signal({});
export const tick = signal(0);

export function reading(id) {
  let one = live.get(id);
  if (!one) live.set(id, (one = signal({row: null, rates: [], lags: []})));
  return one;
}

// The ids of what is failing now, a line each: the list is drawn again only when they change.
export const failing = signal('');
function noteFailing() {
  const ids = resources
    .peek()
    .filter((one) => level(reading(one.id).peek().row, one.problem) === 'bad')
    .map((one) => one.id)
    .join('\n');
  if (ids !== failing.peek()) failing.value = ids;
}

function push(list, value) {
  const next = list.length >= MOST_POINTS ? list.slice(1) : list.slice();
  next.push(value);
  return next;
}

export async function loadResources() {
  const value = await get('resources');
  for (const one of value.resources) {
    const known = reading(one.id);
    known.value = {row: one.reading, rates: one.spark.map((p) => p[0] ?? 0), lags: one.spark.map((p) => p[1] ?? 0)};
  }
  resources.value = value.resources;
  refused.value = value.refused;
  isListed.value = true;
  noteFailing();
  return value;
}

let source = null;
let watched = null;
let version = '';
export function watch(stream = '') {
  if (source && watched === stream && source.readyState !== 2) return;
  source?.close();
  watched = stream;
  shardReadings.value = {};
  source = new EventSource(`${API}/events${stream ? `?stream=${encodeURIComponent(stream)}` : ''}`);
  source.onopen = () => {
    link.value = 'live';
  };
  source.onerror = () => {
    link.value = 'away';
    if (source.readyState === 2) setTimeout(() => watch(stream), 2000);
  };
  source.onmessage = (message) => apply(JSON.parse(message.data));
}

// The server's clock: this one may stand elsewhere, or jump.
let ahead = 0;
export const serverNow = () => Date.now() + ahead;

export function apply(event) {
  link.value = 'live';
  if (event.timeMs) ahead = event.timeMs - Date.now();
  for (const [id, row] of Object.entries(event.readings)) if (row) reading(id).value = {...reading(id).peek(), row};
  for (const one of live.values()) {
    const now = one.peek();
    if (now.row)
      one.value = {row: now.row, rates: push(now.rates, now.row[0] ?? 0), lags: push(now.lags, now.row[4] ?? 0)};
  }
  noteFailing();
  if (Object.keys(event.shards).length) shardReadings.value = {...shardReadings.peek(), ...event.shards};
  if (version && event.version !== version) loadResources().catch(() => {});
  version = event.version;
  tick.value += 1;
}

// --- formats

export function amount(value, unit = '') {
  if (value == null) return '–';
  const steps = [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ];
  for (const [size, letter] of steps)
    if (Math.abs(value) >= size) return `${(value / size).toFixed(value >= 100 * size ? 0 : 1)} ${letter}${unit}`;
  const text = Math.abs(value) < 10 && !Number.isInteger(value) ? value.toFixed(1) : String(Math.round(value));
  return unit ? `${text} ${unit}` : text;
}
export const rate = (value) => (value == null ? '–' : `${amount(value)}/s`);
export function span(ms) {
  if (ms == null) return '–';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.floor((ms % 60_000) / 1000);
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min${seconds ? ` ${seconds} s` : ''}`;
  const minutes = Math.floor((ms % 3_600_000) / 60_000);
  return `${Math.floor(ms / 3_600_000)} h${minutes ? ` ${minutes} min` : ''}`;
}
export const when = (ms) => (ms == null ? '–' : new Date(ms).toISOString().replace('T', ' ').replace('Z', ''));
export const bytes = (value) =>
  value == null
    ? '–'
    : value < 1024
      ? `${value} B`
      : value < 1 << 20
        ? `${(value / 1024).toFixed(1)} KiB`
        : `${(value / (1 << 20)).toFixed(1)} MiB`;
export const many = (count, one) => `${amount(count)} ${one}${count === 1 ? '' : 's'}`;
export const shortShard = (id) => id.replace(/^shardId-0*(?=\d)/, 'shard ');

// How late is late: a minute is a warning, ten are a problem.
export const level = (row, problem) =>
  problem || row?.[5] ? 'bad' : (row?.[4] ?? 0) > 600_000 ? 'bad' : (row?.[4] ?? 0) > 60_000 ? 'warn' : 'ok';

const PAGES = {stream: 'streams', function: 'functions', delivery: 'deliveries', job: 'jobs', stack: 'stacks'};
export function hrefOf(one) {
  if (one.kind === 'mapping')
    return one.facts.function ? `#/functions/${encodeURIComponent(one.facts.function.slice(9))}` : null;
  const page = PAGES[one.kind];
  return page
    ? `#/${page}/${one.name.split('/').map(encodeURIComponent).join('/')}`
    : `#/other/${encodeURIComponent(one.id)}`;
}
export function nameOf(one) {
  if (one.kind === 'mapping')
    return `${(one.facts.source || '').replace(/^.*?:/, '')} → ${(one.facts.function || '').slice(9)}`;
  return one.facts.title || one.name;
}

// --- small components

export function Spark({points, kind}) {
  const most = Math.max(...points, 1e-9);
  const step = 96 / (MOST_POINTS - 1);
  const start = 96 - (points.length - 1) * step;
  const line = points
    .map((value, i) => `${i ? 'L' : 'M'}${Math.round(start + i * step)} ${Math.round(21 - (19 * value) / most)}`)
    .join('');
  return html`<svg class=${`spark ${kind}`} viewBox="0 0 96 22" width="96" height="22" aria-hidden="true">
    ${points.length > 1 && html`<path class="area" d=${`${line}L96 22L${start.toFixed(1)} 22Z`} /><path class="line" d=${line} />`}
  </svg>`;
}

export function State({value}) {
  if (!value) return null;
  const kind = /FAILED|ROLLBACK|INTERRUPTED|ERROR|Failed/.test(value)
    ? 'bad'
    : /ING$|PROGRESS$|SUBMITTED|SCHEDULED|PENDING|ing$/.test(value)
      ? 'busy'
      : /DISABLED|Disabled|CANCELLED|TERMINATED|STOPPED/.test(value)
        ? 'dim'
        : 'ok';
  return html`<span class=${`state ${kind}`}>${value}</span>`;
}

export function Copy({text, label}) {
  return html`<button class="quiet" onClick=${() => tell(() => navigator.clipboard.writeText(text), 'Copied.')}>
    ${label}
  </button>`;
}

export function CopyCalls({cli, boto}) {
  return html`<div class="row" role="group" aria-label="Copy this as a command">
    <${Copy} text=${cli} label="Copy as AWS CLI" /><${Copy} text=${boto} label="Copy as boto3" />
  </div>`;
}
export const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`);

// An operation as both texts, by AWS's names: `DescribeRule` of `events` with `{Name: ...}`; `command` is the CLI's name
// of a service that it calls otherwise.
export function CopyOperation({service, command = service, operation, params}) {
  const parted = (name, by) => name.replace(/([a-z])([A-Z])/g, `$1${by}$2`).toLowerCase();
  const given = Object.entries(params);
  return html`<${CopyCalls}
    cli=${`aws ${command} ${parted(operation, '-')}${given.map(([name, value]) => ` --${parted(name, '-')} ${[value].flat().map(quote).join(' ')}`).join('')}`}
    boto=${`boto3.client("${service}").${parted(operation, '_')}(${given.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(', ')})`}
  />`;
}

export function Refusals({list}) {
  if (!list?.length) return null;
  return html`<div class="refused" role="note">
    <strong>Not everything could be read.</strong>
    <ul>
      ${list.map((one) => html`<li><code>${one.service}:${one.operation}</code> ${one.code}: ${one.message}</li>`)}
    </ul>
  </div>`;
}

export function Empty({title, command, children}) {
  return html`<div class="empty">
    <p>${title}</p>
    ${
      command &&
      html`<pre><code>${command}</code></pre>
        <${Copy} text=${command} label="Copy" />`
    }${children}
  </div>`;
}

// Stands for what comes with the first list of resources.
export function Arriving() {
  return html`<p class="dim" role="status">
    ${link.value === 'away' ? 'The server does not answer. Trying again…' : 'Loading the resources…'}
  </p>`;
}

// Loads `path` and again whenever `again` changes; shows what is missing in its place.
export function Load({path, params, again = 0, children}) {
  const [state, set] = useState({});
  const key = JSON.stringify([path, params]);
  useEffect(() => {
    let isCurrent = true;
    get(path, params).then(
      (value) => isCurrent && set({key, value}),
      (error) => isCurrent && set((old) => ({key, value: old.key === key ? old.value : null, error})),
    );
    return () => {
      isCurrent = false;
    };
  }, [key, again]);
  if (state.key !== key) return html`<p class="dim" role="status">Loading…</p>`;
  return html`${
    state.error &&
    html`<div class="refused" role="alert">${state.error.message}</div>
      ${!state.value && html`<p><a href="#/">To the pipeline</a></p>`}`
  }${state.value && children(state.value)}`;
}

// Counts up every `seconds` while the page can be seen.
export function useEvery(seconds) {
  const [count, set] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => {
      if (!document.hidden) set((n) => n + 1);
    }, seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return count;
}
