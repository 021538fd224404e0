// Charts over time with uPlot: the last ten minutes, live, and the last day.
import {Load, get, html, reading, session, useEffect, useRef, useState} from './lib.js';
import uPlot from './vendor/uPlot.js';

// The steps of the axis of time, in seconds; its words are UTC, as everywhere on the page.
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400];
// Returns what the browser makes of a colour of app.css: a canvas does not know light-dark().
const style = (name) => {
  const probe = document.createElement('i');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const {color} = getComputedStyle(probe);
  probe.remove();
  return color;
};

function Plot({points, title, column, unit, scale = 1, color}) {
  const place = useRef(null);
  useEffect(() => {
    const size = () => ({width: Math.max(220, place.current.clientWidth), height: 140});
    const axis = {
      stroke: style('--dim'),
      grid: {stroke: style('--line'), width: 1},
      ticks: {stroke: style('--line')},
      font: '11px system-ui',
    };
    const plot = new uPlot(
      {
        ...size(),
        legend: {show: false},
        cursor: {y: false},
        padding: [8, 30, 0, 0],
        scales: {y: {range: (_, __, most) => [0, Math.max(most || 0, 1) * 1.1]}},
        series: [
          {},
          {
            stroke: style(color),
            width: 1.6,
            fill: style(color).replace(/rgb\((.*)\)/, 'rgba($1, 0.13)'),
            points: {show: false},
          },
        ],
        axes: [
          {
            ...axis,
            size: 34,
            incrs: SECONDS,
            space: 90,
            values: (_, values) => values.map((v) => new Date(v * 1000).toISOString().slice(11, v % 60 ? 19 : 16)),
          },
          {...axis, size: 54, values: (_, values) => values.map((v) => `${+v.toFixed(2)}${unit}`)},
        ],
      },
      [points.map((p) => p[0] / 1000), points.map((p) => (p[column] == null ? null : p[column] / scale))],
      place.current,
    );
    const watcher = new ResizeObserver(() => plot.setSize(size()));
    watcher.observe(place.current);
    return () => {
      watcher.disconnect();
      plot.destroy();
    };
  }, [points]);
  return html`<figure>
    <figcaption>${title}</figcaption>
    <div class="plot" ref=${place} role="img" aria-label=${`${title}: ${points.length} points`}></div>
  </figure>`;
}

export function Charts({id}) {
  const [length, setLength] = useState('minutes');
  const [again, setAgain] = useState(0);
  useEffect(() => {
    const timer = setInterval(
      () => {
        if (!document.hidden) setAgain((n) => n + 1);
      },
      length === 'day' ? 60_000 : 2_000,
    );
    return () => clearInterval(timer);
  }, [length]);
  return html`<section aria-label="Over time"><div class="row"><h2>Over time</h2><span class="dim">UTC</span><span class="grow"></span><div class="chips" role="group" aria-label="Span">
      ${[
        ['minutes', session.value?.source === 'aws' ? '3 hours' : '10 minutes'],
        ['day', '1 day'],
      ].map(
        ([key, text]) =>
          html`<button class="chip" aria-pressed=${length === key} onClick=${() => setLength(key)}>${text}</button>`,
      )}</div></div>
    <${Load} path="history" params=${{id, span: length}} again=${again}>${({points}) =>
      points.length < 2
        ? html`<p class="dim">
            ${length === 'day' ? 'Minutes in which something happened appear here.' : 'The first points come within seconds.'}
          </p>`
        : html`<div class="charts">
            ${points.some((p) => p[1] != null) && html`<${Plot} points=${points} title="Rate (per second)" column=${1} unit="" color="--rate" />`}
            ${points.some((p) => p[2] != null) && html`<${Plot} points=${points} title="Lag (seconds)" column=${2} scale=${1000} unit=" s" color="--lag" />`}
          </div>`}</${Load}></section>`;
}
