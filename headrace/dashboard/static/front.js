// The front page: every resource in one list, and the same as a map.
import {
  Arriving,
  Copy,
  Empty,
  Load,
  Refusals,
  Spark,
  State,
  amount,
  failing,
  get,
  hrefOf,
  html,
  isListed,
  level,
  nameOf,
  rate,
  reading,
  refused,
  resources,
  session,
  shortShard,
  signal,
  span,
  tick,
  useEffect,
  useMemo,
  useRef,
  useState,
} from './lib.js';
import {Graph, layout} from './vendor/dagre.js';

const KINDS = [
  'stream',
  'function',
  'mapping',
  'delivery',
  'job',
  'queue',
  'kinesis queue',
  'channel',
  'pipe',
  'rule',
  'table',
  'bucket',
  'topic',
  'stack',
];
export const filter = signal('');
const kind = signal('');

// Rows out of sight are not drawn again: a second's change costs what the screen shows.
const sight = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) entry.target.see?.(entry.isIntersecting);
  },
  {rootMargin: '120px'},
);

function Row({one}) {
  const place = useRef(null);
  const [isSeen, see] = useState(true);
  useEffect(() => {
    const row = place.current;
    row.see = see;
    sight.observe(row);
    return () => sight.unobserve(row);
  }, []);
  const now = isSeen ? reading(one.id).value : reading(one.id).peek();
  const row = now.row;
  const problem = one.problem || row?.[5];
  const href = hrefOf(one);
  return html`<tr ref=${place} class=${level(row, problem)}>
    <td>
      <span
        class=${`dot ${level(row, problem)}`}
        role="img"
        aria-label=${problem ? 'failing' : level(row) === 'ok' ? 'well' : 'behind'}
      ></span>
    </td>
    <td class="name">
      <a class="rowlink" href=${href}>${nameOf(one)}</a>${problem && html`<div class="problem">${problem}</div>`}
    </td>
    <td><span class="kind">${one.kind}</span></td>
    <td><${State} value=${one.state} /></td>
    <td class="number">${rate(row?.[0])}</td>
    <td class="sparkcell">${row?.[0] != null && html`<${Spark} points=${now.rates} kind="rate" />`}</td>
    <td class="number">${row?.[3] == null ? '–' : amount(row[3])}</td>
    <td class="number">${span(row?.[4])}</td>
    <td class="sparkcell">${row?.[4] != null && html`<${Spark} points=${now.lags} kind="lag" />`}</td>
  </tr>`;
}

const NEXT = `aws --endpoint-url ${location.origin} kinesis create-stream --stream-name orders --shard-count 2`;

export function List() {
  if (!isListed.value) return html`<div class="head"><h1>Pipeline</h1></div><${Arriving} />`;
  const all = resources.value;
  const text = filter.value.toLowerCase();
  const bad = new Set(failing.value.split('\n'));
  const rows = all
    .filter(
      (one) =>
        (!kind.value || one.kind === kind.value) &&
        (!text || `${nameOf(one)} ${one.kind} ${one.state}`.toLowerCase().includes(text)),
    )
    .sort((a, b) => bad.has(b.id) - bad.has(a.id));
  const failed = all.filter((one) => bad.has(one.id)).length;
  const present = KINDS.filter((name) => all.some((one) => one.kind === name));
  return html`<div class="head">
      <h1>Pipeline</h1>
      <span class="dim"
        >${all.length}
        ${' '}resources${failed ? html`, <strong class="bad">${failed} failing</strong>` : ', none failing'}</span
      >
    </div>
    <${Refusals} list=${refused.value} />
    <div class="row filters">
      <input
        id="filter"
        type="search"
        placeholder="Filter (press /)"
        aria-label="Filter resources"
        value=${filter.value}
        onInput=${(e) => {
          filter.value = e.target.value;
        }}
      />
      <div class="chips" role="group" aria-label="Kinds">
        ${['', ...present].map(
          (name) =>
            html`<button
              class="chip"
              aria-pressed=${kind.value === name}
              onClick=${() => {
                kind.value = name;
              }}
            >
              ${name || 'all'}
            </button>`,
        )}
      </div>
    </div>
    ${
      !all.length
        ? html`<${Empty}
            title="Nothing here yet. Make a stream:"
            command=${session.value?.source === 'aws' ? '' : NEXT}
          />`
        : html`<div class="scroll" tabindex="0" role="region" aria-label="Resources">
              <table class="resources">
                <thead>
                  <tr>
                    <th><span class="hidden">Health</span></th>
                    <th>Name</th>
                    <th>Kind</th>
                    <th>State</th>
                    <th class="number">Rate</th>
                    <th><span class="hidden">Rate, last minute</span></th>
                    <th class="number">Waiting</th>
                    <th class="number">Lag</th>
                    <th><span class="hidden">Lag, last minute</span></th>
                  </tr>
                </thead>
                <tbody>
                  ${rows.map((one) => html`<${Row} key=${one.id} one=${one} />`)}
                </tbody>
              </table>
            </div>
            ${!rows.length && html`<p class="dim">Nothing matches the filter.</p>`}`
    }`;
}

const WIDTH = 178,
  HEIGHT = 54;

function arrange(nodes, edges) {
  const graph = new Graph({multigraph: true}).setGraph({
    rankdir: 'LR',
    nodesep: 22,
    ranksep: 140,
    marginx: 12,
    marginy: 12,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const one of nodes) graph.setNode(one.id, {width: WIDTH, height: HEIGHT});
  edges.forEach((edge, i) => graph.setEdge(edge.start, edge.end, {index: i}, String(i)));
  layout(graph);
  return {
    width: graph.graph().width || 300,
    height: graph.graph().height || 100,
    nodes: new Map(nodes.map((one) => [one.id, graph.node(one.id)])),
    // From side to side: the layout's own first and last points are where its lines meet the boxes.
    edges: edges.map((edge, i) => {
      const [from, to] = [graph.node(edge.start), graph.node(edge.end)];
      const inner = graph
        .edge(edge.start, edge.end, String(i))
        .points.slice(1, -1)
        .filter((p) => p.x > from.x + WIDTH / 2 + 30 && p.x < to.x - WIDTH / 2 - 30);
      return [{x: from.x + WIDTH / 2, y: from.y}, ...inner, {x: to.x - WIDTH / 2, y: to.y}];
    }),
  };
}

// Whose figures an edge shows: the reader's own where there is one, else those of what sends.
const READERS = /^(delivery|pipe|kinesis queue|channel):/;
function carrier({start, end, via}) {
  const isFailure = /^(function|queue):/.test(start); // records that failed there, and go on to `end`
  if (via && !start.startsWith('function:')) return via;
  return isFailure || READERS.test(end) || start.startsWith('bus:') ? end : start;
}

const pen = document.createElement('canvas').getContext('2d');
// The text, or as much of it as fits into a width, with an ellipsis.
function fit(text, width) {
  pen.font = '600 13px system-ui, sans-serif';
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > width) end -= 1;
  return `${text.slice(0, end)}…`;
}

function Flow({edge, points, isJoined}) {
  const now = reading(carrier(edge)).value.row;
  const health = edge.fate?.kind || level(now, '');
  const words = edge.fate
    ? edge.fate.text
    : [now?.[0] == null ? '' : rate(now[0]), now?.[4] > 1000 ? span(now[4]) : ''].filter(Boolean).join(' · ');
  const line = points
    .map((p, i) => {
      if (!i) return `M${p.x} ${p.y}`;
      const before = points[i - 1],
        half = (before.x + p.x) / 2;
      return `C${half} ${before.y} ${half} ${p.y} ${p.x} ${p.y}`;
    })
    .join('');
  const [start, end] = [points[0], points[points.length - 1]];
  // Where edges come together the words are at the beginning, where they part at the end: there each has its own line.
  const place = isJoined ? {x: start.x + 10, y: start.y, anchor: 'start'} : {x: end.x - 12, y: end.y, anchor: 'end'};
  return html`<g class=${`flow ${health} ${(edge.fate ? edge.fate.kind === 'ok' : now?.[0] > 0) ? 'moving' : ''}`}
    ><path d=${line} marker-end="url(#arrow)" />
    ${words && html`<text x=${place.x} y=${place.y - 6} text-anchor=${place.anchor}>${words}</text>`}</g
  >`;
}

function Node({one, at}) {
  const now = reading(one.id).value.row;
  const name = nameOf(one);
  const figure =
    now?.[3] != null && now[0] == null
      ? `${amount(now[3])} waiting`
      : now?.[0] != null
        ? rate(now[0])
        : one.state || '';
  return html`<a href=${hrefOf(one)}
    ><g class=${`node ${level(now, one.problem)}`} transform=${`translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})`}>
      <rect width=${WIDTH} height=${HEIGHT} rx="8" /><rect class="edge" width="5" height=${HEIGHT} rx="2" />
      <text class="kindtext" x="16" y="19">${one.kind}</text
      ><text class="figure" x=${WIDTH - 10} y="19" text-anchor="end">${figure}</text>
      <text class="nametext" x="16" y="40">${fit(name, WIDTH - 28)}</text><title>${name}</title></g
    ></a
  >`;
}

// Draws nodes and edges; an edge with a `fate` (kind, text) shows that in the place of its live rate.
export function Drawing({value, label = 'Map of the pipeline'}) {
  const [zoom, setZoom] = useState(1);
  const nodes = value.resources.filter((one) => one.kind !== 'mapping');
  const ids = new Set(nodes.map((one) => one.id));
  const edges = value.edges.filter((edge) => ids.has(edge.start) && ids.has(edge.end));
  const [into, from] = [{}, {}];
  for (const edge of edges) {
    into[edge.end] = (into[edge.end] || 0) + 1;
    from[edge.start] = (from[edge.start] || 0) + 1;
  }
  const shape = useMemo(() => arrange(nodes, edges), [JSON.stringify([[...ids], edges])]);
  if (!nodes.length) return html`<${Empty} title="The map is empty: no resource feeds another yet." command=${NEXT} />`;
  return html`<div class="row">
      <div class="legend" aria-label="Legend">
        <span class="dot ok"></span> well <span class="dot warn"></span> behind <span class="dot bad"></span> failing
      </div>
      <span class="grow"></span
      ><button aria-label="Zoom out" onClick=${() => setZoom(Math.max(0.3, zoom / 1.25))}>−</button
      ><button aria-label="Zoom in" onClick=${() => setZoom(Math.min(3, zoom * 1.25))}>+</button>
    </div>
    <div class="scroll map" tabindex="0" role="region" aria-label=${label}>
      <svg width=${shape.width * zoom} height=${shape.height * zoom} viewBox=${`0 0 ${shape.width} ${shape.height}`}>
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0L8 4L0 8Z" />
          </marker>
        </defs>
        ${edges.map((edge, i) => html`<${Flow} key=${`${edge.start} ${edge.end} ${edge.via}`} edge=${edge} points=${shape.edges[i]} isJoined=${into[edge.end] > 1 && from[edge.start] === 1} />`)}
        ${nodes.map((one) => html`<${Node} key=${one.id} one=${one} at=${shape.nodes.get(one.id)} />`)}
      </svg>
    </div>`;
}

export function Map_() {
  // Read again only when the list of resources has changed.
  return html`<div class="head"><h1>Map</h1><span class="dim">Rates and lag, live. Choose a node for its page.</span></div>
    <${Refusals} list=${refused.value} /><${Load} path="map" again=${resources.value}>${(value) => html`<${Drawing} value=${value} />`}</${Load}>`;
}
