// Starts the page: routes by the address's hash, the frame around every view, keys, light and dark.
import {Delivery, Export, Function_, Job, More, Other, Permissions, Stack} from './detail.js';
import {List, Map_, filter} from './front.js';
import {Stream} from './stream.js';
import {get, html, link, loadResources, notice, render, route, session, signal, useEffect, watch} from './lib.js';

const VIEWS = {
  '': () => html`<${List} />`,
  map: () => html`<${Map_} />`,
  streams: (name, tab = '', shard = '', sequence = '') =>
    html`<${Stream} key=${name} name=${name} tab=${tab} shard=${shard} sequence=${sequence} />`,
  functions: (name) => html`<${Function_} key=${name} name=${name} />`,
  deliveries: (name) => html`<${Delivery} key=${name} name=${name} />`,
  jobs: (holder, id) => html`<${Job} holder=${holder} id=${id} />`,
  stacks: (name) => html`<${Stack} key=${name} name=${name} />`,
  other: (id) => html`<${Other} key=${id} id=${id} />`,
  permissions: () => html`<${Permissions} />`,
  export: () => html`<${Export} />`,
  more: () => html`<${More} />`,
};
const MENU = [
  ['', 'Pipeline'],
  ['map', 'Map'],
  ['permissions', 'Permissions'],
  ['export', 'For AWS'],
  ['more', 'More'],
];
const help = signal(false);

function readRoute() {
  const parts = location.hash
    .replace(/^#\/?/, '')
    .split('/')
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return part;
      }
    });
  route.value = parts;
  document.title = `${parts.filter(Boolean).slice(-1)[0] || 'Pipeline'} · headrace`;
}

const themes = ['auto', 'light', 'dark'];
const theme = signal(localStorage.getItem('headrace.theme') || 'auto');
function setTheme(name) {
  theme.value = name;
  localStorage.setItem('headrace.theme', name);
  document.documentElement.dataset.theme = name;
}

const KEYS = [
  ['/', 'filter'],
  ['j, k', 'next, previous row'],
  ['Enter', 'open'],
  ['p', 'pipeline'],
  ['m', 'map'],
  ['t', 'light, dark, automatic'],
  ['?', 'this help'],
  ['Esc', 'back'],
];
function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = /INPUT|TEXTAREA|SELECT/.test(event.target.tagName);
  if (event.key === 'Escape') {
    if (help.value) help.value = false;
    else if (isTyping) {
      event.target.blur();
      filter.value = '';
    } else if (route.value[0]) location.hash = '#/';
    return;
  }
  if (isTyping) return;
  const rows = [...document.querySelectorAll('.rowlink')];
  const at = rows.indexOf(document.activeElement);
  const actions = {
    '/': () => document.getElementById('filter')?.focus(),
    j: () => rows[Math.min(rows.length - 1, at + 1)]?.focus(),
    k: () => rows[Math.max(0, at - 1)]?.focus(),
    p: () => {
      location.hash = '#/';
    },
    m: () => {
      location.hash = '#/map';
    },
    t: () => setTheme(themes[(themes.indexOf(theme.value) + 1) % 3]),
    '?': () => {
      help.value = !help.value;
    },
  };
  if (actions[event.key]) {
    event.preventDefault();
    actions[event.key]();
  }
}

function Notice() {
  const now = notice.value;
  useEffect(() => {
    const timer =
      now &&
      setTimeout(
        () => {
          notice.value = null;
        },
        now.isBad ? 10_000 : 4000,
      );
    return () => clearTimeout(timer);
  }, [now]);
  return html`<div aria-live="polite">
    ${now && html`<div class=${`notice ${now.isBad ? 'bad' : ''}`}>${now.text}</div>`}
  </div>`;
}

function App() {
  const [view = '', ...rest] = route.value;
  const here = session.value;
  const draw =
    VIEWS[view] ||
    (() =>
      html`<h1>No such page</h1>
        <p><a href="#/">To the pipeline</a></p>`);
  return html`<a
      class="skip"
      href="#main"
      onClick=${(e) => {
        e.preventDefault();
        document.getElementById('main').focus();
      }}
      >To the content</a
    >
    <header>
      <a class="brand" href="#/" aria-label="headrace, pipeline"
        ><img src="/_headrace/dashboard/icon.svg" width="24" height="24" alt="" /> headrace</a
      >
      <nav aria-label="Pages">
        ${MENU.filter(([key]) => key !== 'more' || here?.source !== 'aws').map(([key, text]) => html`<a href=${`#/${key}`} aria-current=${view === key ? 'page' : undefined}>${text}</a>`)}
      </nav>
      <span class="grow"></span
      >${here && html`<span class="where">${here.source === 'aws' ? 'AWS' : 'local'} ${here.account} ${here.region}${here.isReadOnly ? ', read-only' : ''}</span>`}
      <span class=${`link ${link.value}`} role="status"
        >${link.value === 'live' ? 'live' : link.value === 'away' ? 'server away, trying again' : 'connecting'}</span
      >
      <button
        class="quiet"
        aria-label=${`Theme: ${theme.value}`}
        title="Theme (t)"
        onClick=${() => setTheme(themes[(themes.indexOf(theme.value) + 1) % 3])}
      >
        ◐
      </button>
      <button
        class="quiet"
        aria-label="Keys"
        title="Keys (?)"
        onClick=${() => {
          help.value = !help.value;
        }}
      >
        ?
      </button>
    </header>
    ${
      help.value &&
      html`<aside class="help" aria-label="Keys">
        <dl>
          ${KEYS.map(
            ([key, text]) =>
              html`<dt><kbd>${key}</kbd></dt>
                <dd>${text}</dd>`,
          )}
        </dl>
      </aside>`
    }
    <main id="main" tabindex="-1">${draw(...rest)}</main>
    <${Notice} />`;
}

async function start() {
  for (;;) {
    try {
      session.value = await get('session');
      await loadResources();
      return;
    } catch {
      link.value = 'away';
      await new Promise((done) => {
        setTimeout(done, 2000);
      });
    }
  }
}

setTheme(theme.value);
addEventListener('hashchange', readRoute);
addEventListener('keydown', onKey);
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) loadResources().catch(() => {});
});
readRoute();
document.getElementById('app').textContent = '';
render(html`<${App} />`, document.getElementById('app'));
start().then(() => {
  if (route.value[0] !== 'streams') watch('');
});
