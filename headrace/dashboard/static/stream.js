// A stream: shards with heat, lineage, hottest keys, consumers, and the records browser.
import {Charts} from './charts.js';
import {Records} from './records.js';
import {CopyCalls, Empty, Load, Refusals, State, amount, bytes, html, quote, post, rate, reading, session, shardReadings, shortShard, span, tell, useEffect, useEvery, useMemo, useState, watch, when} from './lib.js';

const ALL = 2n ** 128n;
const shares = new Map();
function share(key) {
  if (!shares.has(key)) shares.set(key, Number(BigInt(key) * 1_000_000n / ALL) / 10_000);
  return shares.get(key);
}
// A shard takes 1,000 records and 1 MiB a second: heat is the larger part of either.
const heatOf = (row) => Math.min(1, Math.max((row?.[0] ?? 0) / 1000, (row?.[1] ?? 0) / 1_048_576));
const steps = (heat) => (heat <= 0 ? 0 : Math.min(5, 1 + Math.floor(heat * 5)));

function Band({shards, chosen, choose}) {
  const rows = shardReadings.value;
  const open = shards.filter((one) => one.isOpen);
  return html`<svg class="band" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=${`${open.length} open shards by their hash ranges, coloured by heat`}>
    ${open.map((one) => {
      const start = share(one.startingHashKey), width = share(one.endingHashKey) - start;
      return html`<rect key=${one.shardId} x=${start} y="0" width=${Math.max(width, 0.02)} height="10" class=${`heat h${steps(heatOf(rows[one.shardId]))} ${one.shardId === chosen ? 'chosen' : ''}`} onClick=${() => choose(one.shardId)}><title>${shortShard(one.shardId)}</title></rect>`;
    })}</svg><div class="row scale dim"><span>hash key 0</span><span class="grow"></span><span>cool</span>${[0, 1, 2, 3, 4, 5].map((n) => html`<span class=${`swatch h${n}`}></span>`)}<span>full</span><span class="grow"></span><span>2¹²⁸ − 1</span></div>`;
}

function Lineage({shards}) {
  const depth = new Map();
  const byId = new Map(shards.map((one) => [one.shardId, one]));
  const depthOf = (one) => {
    if (!depth.has(one.shardId)) depth.set(one.shardId, 1 + Math.max(-1, ...one.parents.map((p) => (byId.has(p) ? depthOf(byId.get(p)) : -1))));
    return depth.get(one.shardId);
  };
  for (const one of shards) depthOf(one);
  const most = Math.max(...depth.values());
  if (!most) return html`<p class="dim">No shard was split or merged: every shard is of the stream's start, or its parents have expired.</p>`;
  const height = Math.min(420, Math.max(140, shards.length * 12)), width = 150;
  const middle = (one) => (share(one.startingHashKey) + share(one.endingHashKey)) / 200 * height;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Lineage"><svg class="lineage" width=${(most + 1) * (width + 60)} height=${height} role="img" aria-label="Lineage of the shards: from left to right, parents to children">
    ${shards.flatMap((one) => one.parents.filter((p) => byId.has(p)).map((p) => {
      const x1 = depth.get(p) * (width + 60) + width, x2 = depth.get(one.shardId) * (width + 60), y1 = middle(byId.get(p)), y2 = middle(one);
      return html`<path class="kin" d=${`M${x1} ${y1}C${x1 + 30} ${y1} ${x2 - 30} ${y2} ${x2} ${y2}`} />`;
    }))}
    ${shards.map((one) => {
      const y = share(one.startingHashKey) / 100 * height, tall = Math.max(3, (share(one.endingHashKey) - share(one.startingHashKey)) / 100 * height - 2);
      return html`<g transform=${`translate(${depth.get(one.shardId) * (width + 60)} ${y})`}><rect class=${one.isOpen ? 'open' : 'closed'} width=${width} height=${tall} rx="3" />${tall > 13 && html`<text x="8" y=${tall / 2 + 4}>${shortShard(one.shardId)}${one.isOpen ? '' : ' (closed)'}</text>`}</g>`;
    })}</svg></div>`;
}

function Shards({value, chosen, choose, reload}) {
  const rows = shardReadings.value;
  const open = useMemo(() => value.shards.filter((one) => one.isOpen).sort((a, b) => a.startingHashKey.length - b.startingHashKey.length || (a.startingHashKey < b.startingHashKey ? -1 : 1)), [value.shards]);
  const order = useMemo(() => new Map(open.map((one, i) => [one, i])), [open]);
  const [count, more] = useState(50);
  const canWrite = !session.value?.isReadOnly;
  const act = async (name, body, text) => { if (await tell(() => post(name, {stream: value.name, ...body}), text)) reload(); };
  const at = open.findIndex((one) => one.shardId === chosen);
  const shown = at >= count ? [open[at], ...open.slice(0, count)] : open.slice(0, count);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Shards"><table><thead><tr><th>Shard</th><th>Range</th><th class="number">Records</th><th class="number">Bytes</th><th>Heat</th>${canWrite && html`<th><span class="hidden">Change</span></th>`}</tr></thead><tbody>
    ${shown.map((one) => {
      const row = rows[one.shardId], next = open[order.get(one) + 1], heat = heatOf(row);
      return html`<tr key=${one.shardId} class=${one.shardId === chosen ? 'chosen' : ''}><td><button class="plain" onClick=${() => choose(one.shardId)}>${shortShard(one.shardId)}</button></td>
        <td class="dim">${share(one.startingHashKey).toFixed(1)} – ${share(one.endingHashKey).toFixed(1)} %</td><td class="number">${rate(row?.[0])}</td><td class="number">${row?.[1] == null ? '–' : `${bytes(Math.round(row[1]))}/s`}</td>
        <td><span class=${`swatch h${steps(heat)}`}></span> ${(heat * 100).toFixed(0)} %</td>
        ${canWrite && html`<td class="actions"><button onClick=${() => act('split', {shardId: one.shardId}, `${shortShard(one.shardId)} is split in its middle.`)}>Split</button>${next && html`<button onClick=${() => act('merge', {shardId: one.shardId, adjacentShardId: next.shardId}, `${shortShard(one.shardId)} and ${shortShard(next.shardId)} are merged.`)}>Merge with next</button>`}</td>`}</tr>`;
    })}</tbody></table></div>${open.length > count && html`<button onClick=${() => more(count + 200)}>Show more of ${open.length} shards</button>`}`;
}

function Consumer({one}) {
  const row = reading(one.id).value.row;
  const behind = Object.entries(one.shards).filter(([, at]) => at.waiting > 0);
  return html`<tr><td>${one.target ? html`${one.target.replace(/^(.*?):/, '$1 ')}` : one.id.replace(':', ' ')}</td><td>${one.state && html`<${State} value=${one.state} />`}${row?.[5] && html`<span class="bad">${row[5]}</span>`}</td><td class="number">${rate(row?.[0])}</td><td class="number">${amount(row?.[3])}</td><td class="number">${span(row?.[4])}</td>
    <td class="dim">${behind.length ? behind.slice(0, 6).map(([id, at]) => `${shortShard(id)}: ${amount(at.waiting)} (${span(at.lagMs)})`).join(', ') : Object.keys(one.shards).length ? 'at the end of every shard' : ''}</td></tr>`;
}

function Hottest({name}) {
  const again = useEvery(10);
  return html`<${Load} path=${`streams/${encodeURIComponent(name)}/keys`} again=${again}>${(value) => (value.keys.length
    ? html`<table class="keys"><thead><tr><th>Key</th><th class="number">Share of bytes</th><th></th></tr></thead><tbody>${value.keys.slice(0, 10).map((one) => html`<tr><td><code>${one.key.slice(0, 80)}</code></td><td class="number">${(one.share * 100).toFixed(1)} %</td><td><meter min="0" max="1" value=${one.share} aria-label=${`Share of ${one.key.slice(0, 40)}`}></meter></td></tr>`)}</tbody></table><p class="dim">Of ${amount(value.records)} records of the last minute.</p>`
    : html`<p class="dim">No records in the last minute.</p>`)}</${Load}>`;
}

function Put({name}) {
  const [key, setKey] = useState('key'), [data, setData] = useState('{"hello": "world"}');
  return html`<details><summary>Put a record</summary><form onSubmit=${(e) => { e.preventDefault(); tell(() => post('put', {stream: name, partitionKey: key, data}), (done) => `Put into ${shortShard(done.shardId)}.`); }}>
    <label>Partition key <input required value=${key} onInput=${(e) => setKey(e.target.value)} /></label><label class="wide">Data <textarea rows="4" value=${data} onInput=${(e) => setData(e.target.value)}></textarea></label><button class="main">Put</button></form></details>`;
}

export function Stream({name, tab}) {
  const [again, setAgain] = useState(0), [chosen, choose] = useState(null);
  useEffect(() => { watch(name); return () => watch(''); }, [name]);
  const every = useEvery(5);
  const here = `#/streams/${encodeURIComponent(name)}`;
  return html`<${Load} path=${`streams/${encodeURIComponent(name)}`} again=${again + every}>${(value) => html`
    <div class="head"><h1>${value.name}</h1><span class="kind">stream</span><${State} value=${value.state} /><span class="dim">${value.mode === 'ON_DEMAND' ? 'on-demand' : 'provisioned'}, ${value.shards.filter((s) => s.isOpen).length} open shards, keeps ${value.retentionHours} h</span></div>
    <div class="row"><div role="tablist" class="tabs" aria-label="Views of the stream">${[['', 'Overview'], ['records', 'Records'], ['lineage', 'Lineage']].map(([key, text]) => html`<a role="tab" aria-selected=${tab === key ? 'true' : 'false'} href=${key ? `${here}/${key}` : here}>${text}</a>`)}</div><span class="grow"></span>
      <${CopyCalls} cli=${`aws kinesis describe-stream-summary --stream-name ${quote(name)}`} boto=${`boto3.client("kinesis").describe_stream_summary(StreamName=${JSON.stringify(name)})`} /></div>
    <${Refusals} list=${value.refused} />
    ${tab === 'records' ? html`<${Records} name=${name} shards=${value.shards} />` : tab === 'lineage' ? html`<section><h2>Splits and merges</h2><${Lineage} shards=${value.shards} /></section>` : html`
      <section aria-label="Hash ranges"><h2>Hash ranges and heat</h2><${Band} shards=${value.shards} chosen=${chosen} choose=${choose} /></section>
      <section aria-label="Consumers"><h2>Consumers</h2>${value.consumers.length ? html`<div class="scroll" tabindex="0" role="region" aria-label="Consumers"><table><thead><tr><th>Consumer</th><th>State</th><th class="number">Rate</th><th class="number">Waiting</th><th class="number">Lag</th><th>Position</th></tr></thead><tbody>${value.consumers.map((one) => html`<${Consumer} key=${one.id} one=${one} />`)}</tbody></table></div>` : html`<${Empty} title="Nobody reads this stream. Connect a function:" command=${`aws lambda create-event-source-mapping --function-name NAME --event-source-arn ${value.arn} --starting-position LATEST`} />`}
        ${value.leases.length > 0 && html`<h3>Leases in DynamoDB (KCL)</h3><table><thead><tr><th>Table</th><th>Shard</th><th>Checkpoint</th><th>Owner</th></tr></thead><tbody>${value.leases.slice(0, 100).map((one) => html`<tr><td>${one.table}</td><td>${one.shardId}</td><td><code>${one.checkpoint}</code></td><td>${one.owner}</td></tr>`)}</tbody></table>`}</section>
      <${Charts} id=${`stream:${name}`} />
      <section aria-label="Shards"><h2>Shards</h2><${Shards} value=${value} chosen=${chosen} choose=${choose} reload=${() => setAgain(again + 1000)} /></section>
      <section aria-label="Hottest keys"><h2>Hottest keys</h2><${Hottest} name=${name} /></section>
      ${!session.value?.isReadOnly && html`<${Put} name=${name} />`}`}`}</${Load}>`;
}
