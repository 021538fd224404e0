// A stream: shards with heat, lineage, hottest keys, consumers, and the records browser.
import {Charts} from './charts.js';
import {Records} from './records.js';
import {
  CopyCalls,
  Empty,
  Load,
  Refusals,
  State,
  amount,
  bytes,
  html,
  quote,
  post,
  rate,
  reading,
  session,
  shardReadings,
  shortShard,
  span,
  tell,
  useEffect,
  useEvery,
  useMemo,
  useRef,
  useState,
  watch,
  when,
} from './lib.js';

const ALL = 2n ** 128n;
const shares = new Map();
function share(key) {
  if (!shares.has(key)) shares.set(key, Number((BigInt(key) * 1_000_000n) / ALL) / 10_000);
  return shares.get(key);
}
// A shard takes 1,000 records and 1 MiB a second: heat is the larger part of either.
const heatOf = (row) => Math.min(1, Math.max((row?.[0] ?? 0) / 1000, (row?.[1] ?? 0) / 1_048_576));
const steps = (heat) => (heat <= 0 ? 0 : Math.min(5, 1 + Math.floor(heat * 5)));

const Swatches = () => [0, 1, 2, 3, 4, 5].map((n) => html`<span class=${`swatch h${n}`}></span>`);

function Band({shards, chosen, choose}) {
  const rows = shardReadings.value;
  const open = shards.filter((one) => one.isOpen);
  return html`<div class="bandbox">
      <svg
        class="band"
        viewBox="0 0 100 10"
        preserveAspectRatio="none"
        role="img"
        aria-label=${`${open.length} open shards by their hash ranges, coloured by heat`}
      >
        ${open.map((one) => {
          const start = share(one.startingHashKey),
            width = share(one.endingHashKey) - start;
          return html`<rect
            key=${one.shardId}
            x=${start}
            y="0"
            width=${Math.max(width, 0.02)}
            height="10"
            class=${`heat h${steps(heatOf(rows[one.shardId]))} ${one.shardId === chosen ? 'chosen' : ''}`}
            onClick=${() => choose(one.shardId)}
            ><title>${shortShard(one.shardId)}</title></rect
          >`;
        })}</svg
      >${
        open.length <= 24 &&
        open.map((one) => {
          const start = share(one.startingHashKey),
            width = share(one.endingHashKey) - start;
          return (
            width > 6 &&
            html`<span
              class="bandname"
              aria-hidden="true"
              key=${one.shardId}
              style=${{left: `${start}%`, width: `${width}%`}}
              >${shortShard(one.shardId)}</span
            >`
          );
        })
      }
    </div>
    <div class="row scale dim">
      <span>hash key 0</span><span class="grow"></span><span>cool</span><${Swatches} /><span>full</span
      ><span class="grow"></span><span>2¹²⁸ − 1</span>
    </div>`;
}

const SPANS = [
  ['', 'all'],
  ['3600000', '1 h'],
  ['21600000', '6 h'],
  ['86400000', '1 day'],
];
const ROOM = {left: 46, right: 8, top: 6, bottom: 22};

// Equal neighbours become one rectangle: a quiet shard costs one, not a hundred.
function runs(values) {
  const list = [];
  values.forEach((value, i) => {
    const last = list[list.length - 1];
    if (last && last.value === value) last.end = i + 1;
    else list.push({value, start: i, end: i + 1});
  });
  return list;
}

function useWidth() {
  const place = useRef(null);
  const [width, setWidth] = useState(900);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.max(260, Math.floor(entry.contentRect.width))));
    watcher.observe(place.current);
    return () => watcher.disconnect();
  }, []);
  return [place, width];
}

// Time runs to the right, hash keys down: a split is where one band becomes two, a merge where two become one.
function ShardsOverTime({value}) {
  const [place, width] = useWidth();
  const {fromMs, toMs, steps: count, shards, rates} = value;
  const inner = width - ROOM.left - ROOM.right,
    tall = Math.max(180, Math.min(520, shards.filter((one) => one.isOpen).length * 30));
  const x = (ms) => ROOM.left + Math.max(0, Math.min(1, (ms - fromMs) / (toMs - fromMs))) * inner;
  const y = (key) => ROOM.top + (share(key) / 100) * tall;
  const ticks = Math.max(2, Math.min(6, Math.floor(inner / 150)));
  const clock = (ms) => when(ms).slice(toMs - fromMs > 86_400_000 ? 5 : 11, toMs - fromMs > 21_600_000 ? 16 : 19);
  return html`<div ref=${place} class="clip">
    <svg
      class="lineage"
      width=${width}
      height=${tall + ROOM.top + ROOM.bottom}
      role="img"
      aria-label=${`${shards.length} shards from ${when(fromMs)} to ${when(toMs)} by their hash ranges, coloured by heat; the table below has the splits and merges`}
    >
      ${shards.map((one) => {
        const start = x(one.openedMs ?? fromMs),
          end = Math.max(start + 1, x(one.closedMs ?? toMs)),
          top = y(one.startingHashKey),
          room = y(one.endingHashKey) - top,
          high = Math.max(0.5, room > 4 ? room - 1 : room);
        const heats = (rates[one.shardId] || []).map((rate) => steps(Math.min(1, rate / 1000)));
        return html`<g key=${one.shardId}
          ><title>
            ${`${shortShard(one.shardId)}, ${share(one.startingHashKey).toFixed(1)} – ${share(one.endingHashKey).toFixed(1)} % of the hash keys, open from ${when(one.openedMs)}${one.closedMs ? ` to ${when(one.closedMs)}` : ''}`}
          </title>
          <rect class="h0" x=${start} y=${top} width=${end - start} height=${high} />
          ${runs(heats)
            .filter((run) => run.value)
            .map((run) => {
              const left = Math.max(start, ROOM.left + (run.start / count) * inner),
                right = Math.min(end, ROOM.left + (run.end / count) * inner);
              return (
                right > left &&
                html`<rect class=${`h${run.value}`} x=${left} y=${top} width=${right - left} height=${high} />`
              );
            })}
          ${high > 4 && html`<rect class=${one.isOpen ? 'life' : 'life closed'} x=${start} y=${top} width=${end - start} height=${high} />`}
          ${high > 15 && end - start > 64 && html`<text x=${start + 7} y=${top + high / 2 + 4}>${shortShard(one.shardId)}</text>`}</g
        >`;
      })}
      <text class="axis" x=${ROOM.left - 6} y=${ROOM.top + 10} text-anchor="end">0</text>
      <text class="axis" x=${ROOM.left - 6} y=${ROOM.top + tall} text-anchor="end">2¹²⁸</text>
      ${Array.from({length: ticks + 1}, (_, i) => html`<text class="axis" x=${ROOM.left + (i / ticks) * inner} y=${tall + ROOM.top + 16} text-anchor=${i === 0 ? 'start' : i === ticks ? 'end' : 'middle'}>${i === ticks ? 'now' : clock(fromMs + (i / ticks) * (toMs - fromMs))}</text>`)}
    </svg>
  </div>`;
}

// What was split or merged, newest first.
function reshards(shards) {
  const children = new Map();
  for (const one of shards)
    for (const parent of one.parents) children.set(parent, [...(children.get(parent) || []), one]);
  const events = new Map();
  for (const one of shards) {
    if (one.parents.length === 2)
      events.set(one.shardId, {ms: one.openedMs, what: 'merge', from: one.parents, to: [one.shardId]});
    else if (one.parents.length)
      events.set(one.parents[0], {
        ms: one.openedMs,
        what: 'split',
        from: one.parents,
        to: children.get(one.parents[0]).map((child) => child.shardId),
      });
  }
  return [...events.values()].sort((a, b) => b.ms - a.ms);
}

function Lineage({name}) {
  const [length, setLength] = useState('');
  const again = useEvery(5);
  return html`<section aria-label="Lineage"><div class="row"><h2>Shards over time</h2><span class="grow"></span><div class="chips" role="group" aria-label="Span">${SPANS.map(([key, text]) => html`<button class="chip" aria-pressed=${length === key} onClick=${() => setLength(key)}>${text}</button>`)}</div></div>
    <${Load} path=${`streams/${encodeURIComponent(name)}/lineage`} params=${{span: length}} again=${again}>${(
      value,
    ) => {
      const events = reshards(value.shards);
      return html`<${Refusals} list=${value.refused} /><${ShardsOverTime}
          value=${value}
        />${value.isKnown ? html`<div class="row scale dim"><span>Records a second:</span><span>none</span><${Swatches} /><span>1,000, a shard's limit</span></div>` : html`<p class="dim">Heat by shard over time is known to a headrace cloud alone.</p>`}
        <h3>Splits and merges</h3>
        ${
          events.length
            ? html`<div class="scroll" tabindex="0" role="region" aria-label="Splits and merges">
                <table>
                  <thead>
                    <tr>
                      <th>Time (UTC)</th>
                      <th>What</th>
                      <th>From</th>
                      <th>To</th>
                    </tr>
                  </thead>
                  <tbody>
                    ${events.slice(0, 200).map(
                      (one) =>
                        html`<tr>
                          <td>${when(one.ms).slice(0, 19)}</td>
                          <td>${one.what}</td>
                          <td>${one.from.map(shortShard).join(', ')}</td>
                          <td>${one.to.map(shortShard).join(', ')}</td>
                        </tr>`,
                    )}
                  </tbody>
                </table>
              </div>`
            : html`<p class="dim">None: every shard is of the stream's start, or its parents have expired.</p>`
        }`;
    }}</${Load}></section>`;
}

function Shards({value, chosen, choose, reload}) {
  const rows = shardReadings.value;
  const open = useMemo(
    () =>
      value.shards
        .filter((one) => one.isOpen)
        .sort(
          (a, b) =>
            a.startingHashKey.length - b.startingHashKey.length || (a.startingHashKey < b.startingHashKey ? -1 : 1),
        ),
    [value.shards],
  );
  const order = useMemo(() => new Map(open.map((one, i) => [one, i])), [open]);
  const [count, more] = useState(50);
  const canWrite = !session.value?.isReadOnly;
  const act = async (name, body, text) => {
    if (await tell(() => post(name, {stream: value.name, ...body}), text)) reload();
  };
  const at = open.findIndex((one) => one.shardId === chosen);
  const shown = at >= count ? [open[at], ...open.slice(0, count)] : open.slice(0, count);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Shards">
      <table>
        <thead>
          <tr>
            <th>Shard</th>
            <th>Range</th>
            <th class="number">Records</th>
            <th class="number">Bytes</th>
            <th>Heat</th>
            ${canWrite && html`<th><span class="hidden">Change</span></th>`}
          </tr>
        </thead>
        <tbody>
          ${shown.map((one) => {
            const row = rows[one.shardId],
              next = open[order.get(one) + 1],
              heat = heatOf(row);
            return html`<tr key=${one.shardId} class=${one.shardId === chosen ? 'chosen' : ''}>
              <td><button class="plain" onClick=${() => choose(one.shardId)}>${shortShard(one.shardId)}</button></td>
              <td class="dim">${share(one.startingHashKey).toFixed(1)} – ${share(one.endingHashKey).toFixed(1)} %</td>
              <td class="number">${rate(row?.[0])}</td>
              <td class="number">${row?.[1] == null ? '–' : `${bytes(Math.round(row[1]))}/s`}</td>
              <td><span class=${`swatch h${steps(heat)}`}></span> ${(heat * 100).toFixed(0)} %</td>
              ${canWrite && html`<td class="actions"><button onClick=${() => act('split', {shardId: one.shardId}, `${shortShard(one.shardId)} is split in its middle.`)}>Split</button>${next && html`<button onClick=${() => act('merge', {shardId: one.shardId, adjacentShardId: next.shardId}, `${shortShard(one.shardId)} and ${shortShard(next.shardId)} are merged.`)}>Merge with next</button>`}</td>`}
            </tr>`;
          })}
        </tbody>
      </table>
    </div>
    ${open.length > count && html`<button onClick=${() => more(count + 200)}>Show more of ${open.length} shards</button>`}`;
}

function Consumer({one}) {
  const row = reading(one.id).value.row;
  const places = Object.values(one.shards),
    behind = Object.entries(one.shards).filter(([, at]) => at.waiting > 0);
  const waiting = row?.[3] ?? (places.length ? places.reduce((sum, at) => sum + at.waiting, 0) : null);
  const lag = row?.[4] ?? (places.length ? Math.max(...places.map((at) => at.lagMs)) : null);
  return html`<tr>
    <td>${one.target ? html`${one.target.replace(/^(.*?):/, '$1 ')}` : one.id.replace(':', ' ')}</td>
    <td>
      ${one.state && html`<${State} value=${one.state} />`}${row?.[5] && html`<span class="bad">${row[5]}</span>`}
    </td>
    <td class="number">${rate(row?.[0])}</td>
    <td class="number">${amount(waiting)}</td>
    <td class="number">${span(lag)}</td>
    <td class="dim">
      ${
        behind.length
          ? behind
              .slice(0, 6)
              .map(([id, at]) => `${shortShard(id)}: ${amount(at.waiting)} (${span(at.lagMs)})`)
              .join(', ')
          : Object.keys(one.shards).length
            ? 'at the end of every shard'
            : ''
      }
    </td>
  </tr>`;
}

function Hottest({name}) {
  const again = useEvery(10);
  return html`<${Load} path=${`streams/${encodeURIComponent(name)}/keys`} again=${again}>${(value) =>
    value.keys.length
      ? html`<table class="keys">
            <thead>
              <tr>
                <th>Key</th>
                <th class="number">Share of bytes</th>
                <th></th>
              </tr>
            </thead>
            <tbody>
              ${value.keys.slice(0, 10).map(
                (one) =>
                  html`<tr>
                    <td><code>${one.key.slice(0, 80)}</code></td>
                    <td class="number">${(one.share * 100).toFixed(1)} %</td>
                    <td>
                      <meter
                        min="0"
                        max="1"
                        value=${one.share}
                        aria-label=${`Share of ${one.key.slice(0, 40)}`}
                      ></meter>
                    </td>
                  </tr>`,
              )}
            </tbody>
          </table>
          <p class="dim">
            ${value.isSample ? 'By a sample of' : 'Of'} ${amount(value.records)} records of the last minute.
          </p>`
      : html`<p class="dim">No records in the last minute.</p>`}</${Load}>`;
}

function Put({name}) {
  const [key, setKey] = useState('key'),
    [data, setData] = useState('{"hello": "world"}');
  return html`<details>
    <summary>Put a record</summary>
    <form
      onSubmit=${(e) => {
        e.preventDefault();
        tell(
          () => post('put', {stream: name, partitionKey: key, data}),
          (done) => `Put into ${shortShard(done.shardId)}.`,
        );
      }}
    >
      <label>Partition key <input required value=${key} onInput=${(e) => setKey(e.target.value)} /></label
      ><label class="wide"
        >Data <textarea rows="4" value=${data} onInput=${(e) => setData(e.target.value)}></textarea></label
      ><button class="main">Put</button>
    </form>
  </details>`;
}

export function Stream({name, tab, shard, sequence}) {
  const [again, setAgain] = useState(0),
    [chosen, choose] = useState(null);
  useEffect(() => {
    watch(name);
    return () => watch('');
  }, [name]);
  const every = useEvery(5);
  const here = `#/streams/${encodeURIComponent(name)}`;
  return html`<${Load} path=${`streams/${encodeURIComponent(name)}`} again=${again + every}>${(value) =>
    html`<div class="head">
        <h1>${value.name}</h1>
        <span class="kind">stream</span><${State} value=${value.state} /><span class="dim"
          >${value.mode === 'ON_DEMAND' ? 'on-demand' : 'provisioned'}, ${value.shards.filter((s) => s.isOpen).length}
          ${' '}open shards, keeps ${value.retentionHours} h</span
        >
      </div>
      <div class="row">
        <div role="tablist" class="tabs" aria-label="Views of the stream">
          ${[
            ['', 'Overview'],
            ['records', 'Records'],
            ['lineage', 'Lineage'],
          ].map(
            ([key, text]) =>
              html`<a role="tab" aria-selected=${tab === key ? 'true' : 'false'} href=${key ? `${here}/${key}` : here}
                >${text}</a
              >`,
          )}
        </div>
        <span class="grow"></span>
        <${CopyCalls}
          cli=${`aws kinesis describe-stream-summary --stream-name ${quote(name)}`}
          boto=${`boto3.client("kinesis").describe_stream_summary(StreamName=${JSON.stringify(name)})`}
        />
      </div>
      <${Refusals} list=${value.refused} />
      ${
        tab === 'records'
          ? html`<${Records}
              key=${`${shard} ${sequence}`}
              name=${name}
              shards=${value.shards}
              shard=${shard}
              sequence=${sequence}
            />`
          : tab === 'lineage'
            ? html`<${Lineage} name=${name} />`
            : html`<section aria-label="Hash ranges">
                  <h2>Hash ranges and heat</h2>
                  <${Band} shards=${value.shards} chosen=${chosen} choose=${choose} />
                </section>
                <section aria-label="Consumers">
                  <h2>Consumers</h2>
                  ${
                    value.consumers.length
                      ? html`<div class="scroll" tabindex="0" role="region" aria-label="Consumers">
                          <table>
                            <thead>
                              <tr>
                                <th>Consumer</th>
                                <th>State</th>
                                <th class="number">Rate</th>
                                <th class="number">Waiting</th>
                                <th class="number">Lag</th>
                                <th>Position</th>
                              </tr>
                            </thead>
                            <tbody>
                              ${value.consumers.map((one) => html`<${Consumer} key=${one.id} one=${one} />`)}
                            </tbody>
                          </table>
                        </div>`
                      : html`<${Empty}
                          title="Nobody reads this stream. Connect a function:"
                          command=${`aws lambda create-event-source-mapping --function-name NAME --event-source-arn ${value.arn} --starting-position LATEST`}
                        />`
                  }
                  ${
                    value.leases.length > 0 &&
                    html`<h3>Leases in DynamoDB (KCL)</h3>
                      <div class="scroll" tabindex="0" role="region" aria-label="Leases">
                        <table>
                          <thead>
                            <tr>
                              <th>Table</th>
                              <th>Shard</th>
                              <th>Owner</th>
                              <th class="number">Waiting</th>
                              <th class="number">Lag</th>
                              <th>Checkpoint</th>
                            </tr>
                          </thead>
                          <tbody>
                            ${value.leases.slice(0, 100).map(
                              (one) =>
                                html`<tr>
                                  <td>
                                    <a href=${`#/other/${encodeURIComponent(`table:${one.table}`)}`}>${one.table}</a>
                                  </td>
                                  <td>${shortShard(one.shardId)}</td>
                                  <td>${one.owner}</td>
                                  <td class="number">${amount(one.waiting)}</td>
                                  <td class="number">${span(one.lagMs)}</td>
                                  <td>
                                    ${one.checkpointMs ? html`<span title=${one.checkpoint}>record of ${when(one.checkpointMs).slice(0, 19)}</span>` : html`<code>${one.checkpoint}</code>`}
                                  </td>
                                </tr>`,
                            )}
                          </tbody>
                        </table>
                      </div>`
                  }
                </section>
                <${Charts} id=${`stream:${name}`} />
                <section aria-label="Shards">
                  <h2>Shards</h2>
                  <${Shards} value=${value} chosen=${chosen} choose=${choose} reload=${() => setAgain(again + 1000)} />
                </section>
                <section aria-label="Hottest keys">
                  <h2>Hottest keys</h2>
                  <${Hottest} name=${name} />
                </section>
                ${!session.value?.isReadOnly && html`<${Put} name=${name} />`}`
      }`}</${Load}>`;
}
