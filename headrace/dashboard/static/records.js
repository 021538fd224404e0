// The records browser: positions, a timeline whose selection sets the time, search, stored filters, payloads as text.
import {Drawing} from './front.js';
import {
  Copy,
  CopyCalls,
  Empty,
  Load,
  amount,
  bytes,
  html,
  many,
  post,
  quote,
  serverNow,
  session,
  shortShard,
  signal,
  tell,
  useEffect,
  useEvery,
  useState,
  when,
} from './lib.js';

const STEPS = 90;
const MOST_PRETTY = 400_000;
const SPANS = [
  ['600000', '10 min'],
  ['3600000', '1 h'],
  ['21600000', '6 h'],
  ['86400000', '1 day'],
];
const stored = (name) => JSON.parse(localStorage.getItem(`headrace.filters.${name}`) || '[]');

function Timeline({name, choose}) {
  const [length, setLength] = useState('600000');
  const again = useEvery(5);
  const now = Math.floor(serverNow() / 5000) * 5000;
  const [from, to] = [now - Number(length), now];
  return html`<div class="timeline"><div class="row"><h2>Arrivals</h2><span class="dim">Choose a bar to read from there.</span><span class="grow"></span><div class="chips" role="group" aria-label="Span">${SPANS.map(([key, text]) => html`<button class="chip" aria-pressed=${length === key} onClick=${() => setLength(key)}>${text}</button>`)}</div></div>
    <${Load} path=${`streams/${encodeURIComponent(name)}/timeline`} params=${{from: now - Number(length), to: now, steps: STEPS}} again=${again}>${({
      counts,
      fromMs,
      toMs,
    }) => {
      const most = Math.max(...counts, 1),
        step = (toMs - fromMs) / STEPS;
      return html`<div class="bars" role="group" aria-label="Records over time">
          ${counts.map((count, i) => html`<button class="bar" disabled=${!count} aria-label=${`${count} records from ${when(fromMs + i * step)}`} title=${`${count} records from ${when(fromMs + i * step)}`} onClick=${() => choose(Math.floor(fromMs + i * step))}><span style=${{height: `${count ? Math.max(4, (100 * count) / most) : 0}%`}}></span></button>`)}
        </div>
        <div class="row dim scale">
          <span>${when(fromMs).slice(0, 19)}</span><span class="grow"></span><span>at most ${amount(most)} a bar</span
          ><span class="grow"></span><span>${when(toMs).slice(0, 19)}</span>
        </div>`;
    }}</${Load}></div>`;
}

function pretty(payload, form) {
  const text = payload.data;
  if (payload.encoding !== 'text') return text;
  if (form === 'raw' || text.length > MOST_PRETTY) return text;
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  return indent(text);
}

// Only the white space changes: a number keeps its digits, a repeated name stays, and no depth is too deep.
function indent(text) {
  const out = [];
  let depth = 0;
  const line = () => `\n${'  '.repeat(Math.min(depth, 40))}`;
  for (const token of text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || []) {
    const last = out[out.length - 1];
    if (token === '}' || token === ']') {
      depth -= 1;
      out.push(last === '{' || last === '[' ? '' : line(), token);
    } else {
      if (last === '{' || last === '[' || last === ',') out.push(line());
      out.push(token === ':' ? ': ' : token);
      if (token === '{' || token === '[') depth += 1;
    }
  }
  return out.join('');
}

function Csv({text}) {
  const rows = text
    .trim()
    .split(/\r?\n/)
    .slice(0, 200)
    .map((line) => line.split(','));
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Rows">
    <table>
      ${rows.map(
        (row) =>
          html`<tr>
            ${row.slice(0, 50).map((cell) => html`<td>${cell}</td>`)}
          </tr>`,
      )}
    </table>
  </div>`;
}

// The pasted schema, kept by stream in this browser.
const schemas = signal(JSON.parse(localStorage.getItem('headrace.schemas') || '{}'));

function Schema({name}) {
  const [form, setForm] = useState(schemas.value[name] || {format: 'avro', schema: '', message: ''});
  const keep = (value) => {
    schemas.value = {...schemas.value, [name]: value};
    localStorage.setItem('headrace.schemas', JSON.stringify(schemas.value));
  };
  return html`<details class="schema">
    <summary>Schema of the records${schemas.value[name]?.schema ? `: ${schemas.value[name].format}` : ''}</summary>
    <form
      class="row"
      onSubmit=${(e) => {
        e.preventDefault();
        keep(form);
      }}
    >
      <label
        >Format${' '}
        <select value=${form.format} onChange=${(e) => setForm({...form, format: e.target.value})}>
          <option value="avro">Avro</option>
          <option value="protobuf">Protobuf</option>
        </select></label
      >
      ${form.format === 'protobuf' && html`<label>Message <input required value=${form.message} placeholder="shop.Order" onInput=${(e) => setForm({...form, message: e.target.value})} /></label>`}
      <label
        >${form.format === 'avro' ? 'Schema (JSON)' : 'base64 of protoc --include_imports --descriptor_set_out'}${' '}
        <textarea
          rows="4"
          cols="60"
          required
          value=${form.schema}
          onInput=${(e) => setForm({...form, schema: e.target.value})}
        ></textarea>
      </label>
      <button class="main">Use</button><button type="button" onClick=${() => keep(null)}>Forget</button>
    </form>
  </details>`;
}

function Decoded({payload, schema}) {
  const [answer, setAnswer] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    post('decode', {...schema, data: payload.data, encoding: payload.encoding}).then(
      (value) => isCurrent && setAnswer(value),
      (error) => isCurrent && setAnswer({problem: error.message}),
    );
    return () => {
      isCurrent = false;
    };
  }, [payload.data, schema]);
  if (!answer) return html`<p class="dim" role="status">Decoding…</p>`;
  if (answer.problem) return html`<div class="refused" role="alert">${answer.problem}</div>`;
  return html`<h3>${schema.format}${answer.header === 'no header' ? '' : `, after ${answer.header}`}</h3>
    <pre tabindex="0">${answer.text}</pre>`;
}

export function Payload({payload, stream}) {
  const schema = stream && schemas.value[stream];
  if (schema && !payload.isCut)
    return html`<${Decoded} payload=${payload} schema=${schema} /><${Raw} payload=${payload} />`;
  return html`<${Raw} payload=${payload} />`;
}

function Raw({payload}) {
  const isCsv = payload.encoding === 'text' && !/^[\s]*[[{"]/.test(payload.data) && payload.data.includes(',');
  const [form, setForm] = useState(isCsv ? 'csv' : 'pretty');
  return html`<div class="payload">
    <div class="row">
      <span class="dim"
        >${bytes(payload.bytes)}${payload.packing.length ? `, unpacked from ${payload.packing.join(', ')}` : ''}${payload.encoding === 'base64' ? ', not text: base64' : ''}${payload.isCut ? ', cut' : ''}</span
      ><span class="grow"></span>
      <div class="chips" role="group" aria-label="Form">
        ${['pretty', 'raw', ...(isCsv ? ['csv'] : [])].map((one) => html`<button class="chip" aria-pressed=${form === one} onClick=${() => setForm(one)}>${one}</button>`)}
      </div>
      <${Copy} text=${payload.data} label="Copy" />
    </div>
    ${form === 'csv' ? html`<${Csv} text=${payload.data} />` : html`<pre tabindex="0">${pretty(payload, form)}</pre>`}
  </div>`;
}

// A function's error as its language prints it; another answer as it is.
function failure(detail) {
  try {
    const {errorType, errorMessage, stackTrace, trace} = JSON.parse(detail);
    if (errorMessage == null) return detail;
    const lines = (stackTrace || trace || []).map((line) => String(line).trimEnd());
    return [`${errorType || 'Error'}: ${errorMessage}`, ...lines].join('\n');
  } catch {
    return detail;
  }
}

function Batch({node, stream, depth = 0}) {
  return html`<li>
    <span
      class=${`chip ${node.disposal === 'success' ? 'good' : /dropped|failure|expired/.test(node.disposal) ? 'bad' : 'busy'}`}
      >${node.disposal}</span
    >
    ${' '}${node.part || `batch ${node.number}`} of ${shortShard(node.shard_id)}:${' '}
    ${stream && node.first ? html`<a href=${`#/streams/${encodeURIComponent(stream)}/records/${node.shard_id}/${node.first}`}>${many(node.records, 'record')}</a>` : many(node.records, 'record')}${node.detail ? html` <span class="dim">${node.detail}</span>` : ''}
    ${
      node.attempts.length > 0 &&
      html`<ol class="attempts">
        ${node.attempts.map((one) => html`<li><time>${when(one.at_ms)}</time> ${one.duration_ms} ms <strong class=${/^(ok|success)/i.test(one.outcome) ? 'good' : 'bad'}>${one.outcome}</strong>${one.detail && html`<pre tabindex="0">${failure(one.detail).slice(0, 4000)}</pre>`}</li>`)}
      </ol>`
    }
    ${
      node.parts.length > 0 &&
      html`<ul class="tree">
        ${node.parts.map((part) => html`<${Batch} node=${part} stream=${stream} depth=${depth + 1} />`)}
      </ul>`
    }
  </li>`;
}
// With a stream, each batch leads to its records.
export const Batches = ({trees, stream}) =>
  html`<ul class="tree">
    ${trees.map((node) => html`<${Batch} node=${node} stream=${stream} />`)}
  </ul>`;

// What became of a record at a function, by the words of its passport: ok, bad, or warn while it waits.
const fateOf = (outcome) => ({
  kind: /^(success|filtered)/.test(outcome) ? 'ok' : /^(dropped|sent to the failure)/.test(outcome) ? 'bad' : 'warn',
  text: outcome.split(':')[0].replace('sent to the failure destination', 'failed, sent on'),
});

// The part of the map that the record reaches: to each function with what became of it, on to where a failed one goes.
function pathOf({resources, edges}, stream, mappings) {
  const fates = new Map(mappings.map((one) => [`mapping:${one.mapping}`, fateOf(one.outcome)]));
  const start = `stream:${stream}`;
  const taken = edges
    .filter((edge) => (edge.start === start ? !edge.via || fates.has(edge.via) : fates.get(edge.via)?.kind === 'bad'))
    .map((edge) => ({
      ...edge,
      fate: edge.start === start ? fates.get(edge.via) || {kind: '', text: ''} : {kind: 'bad', text: 'failed'},
    }));
  const ends = new Set([start, ...taken.flatMap((edge) => [edge.start, edge.end])]);
  return {resources: resources.filter((one) => ends.has(one.id)), edges: taken};
}

function Passport({stream, record}) {
  return html`<${Load} path="trace" params=${{stream, sequence: record.sequenceNumber}}>${({
    mappings,
  }) => html`<h3>Passport</h3>
    ${!mappings.length && html`<p class="dim">No function reads this stream.</p>`}
    <${Load} path="map">${(value) => html`<${Drawing} value=${pathOf(value, stream, mappings)} label="Path of the record through the map" />`}</${Load}>
    ${mappings.map(
      (one) =>
        html`<ol class="passport">
            <li>${record.partitionKey || 'record'}</li>
            <li>stream ${stream}</li>
            <li>${shortShard(record.shardId)}</li>
            <li>mapping ${one.mapping.slice(0, 8)}</li>
            <li>function ${one.function.split(':')[6]}</li>
            <li class="end">${one.outcome.split(':')[0]}</li>
          </ol>
          ${one.outcome.includes(':') && html`<p class="dim">${one.outcome.replace(/^.*?: */, '')}</p>`}<${Batches}
            trees=${one.trees}
          />`,
    )}`}</${Load}>`;
}

function Whole({name, record}) {
  const path = `streams/${encodeURIComponent(name)}/records/${record.shardId}/${record.sequenceNumber}`;
  const [target, setTarget] = useState(name);
  return html`<div class="whole"><${Load} path=${path}>${(whole) =>
    html`<dl class="facts">
        <dt>Sequence number</dt>
        <dd><code>${whole.sequenceNumber}</code></dd>
        <dt>Partition key</dt>
        <dd><code>${whole.partitionKey || '(none)'}</code></dd>
        <dt>Arrived</dt>
        <dd>${when(whole.timeMs)} UTC</dd>
      </dl>
      ${
        whole.userRecords
          ? html`<p class="dim">A KPL aggregate of ${whole.userRecords.length} records:</p>
              ${whole.userRecords.map((one) => html`<code>${one.partitionKey}</code><${Payload} payload=${one.payload} stream=${name} />`)}`
          : html`<${Payload} payload=${whole.payload} stream=${name} />`
      }`}</${Load}>
    <div class="row"><${CopyCalls} cli=${`aws kinesis get-records --shard-iterator "$(aws kinesis get-shard-iterator --stream-name ${quote(name)} --shard-id ${record.shardId} --shard-iterator-type AT_SEQUENCE_NUMBER --starting-sequence-number ${record.sequenceNumber} --query ShardIterator --output text)" --limit 1`} boto=${`kinesis = boto3.client("kinesis")\niterator = kinesis.get_shard_iterator(StreamName=${JSON.stringify(name)}, ShardId="${record.shardId}", ShardIteratorType="AT_SEQUENCE_NUMBER", StartingSequenceNumber="${record.sequenceNumber}")["ShardIterator"]\nprint(kinesis.get_records(ShardIterator=iterator, Limit=1)["Records"])`} />
      ${!session.value?.isReadOnly && html`<label>Into <input value=${target} onInput=${(e) => setTarget(e.target.value)} /></label><button onClick=${() => tell(() => post('replay', {stream: name, shardId: record.shardId, sequenceNumber: record.sequenceNumber, target}), 'Replayed: put once more.')}>Replay</button>`}</div>
    ${session.value?.source === 'headrace' && html`<${Passport} stream=${name} record=${record} />`}</div>`;
}

function Line({name, record, isOpen, toggle}) {
  const preview = record.userRecords
    ? `KPL aggregate of ${record.userRecords.length} records`
    : record.payload.data.slice(0, 200);
  return html`<tr class=${isOpen ? 'open' : ''}>
      <td>
        <button class="plain" aria-expanded=${isOpen ? 'true' : 'false'} onClick=${toggle}>
          ${isOpen ? '▾' : '▸'} ${when(record.timeMs)}
        </button>
      </td>
      <td>${shortShard(record.shardId)}</td>
      <td class="key"><code>${record.partitionKey.slice(0, 80)}</code></td>
      <td class="number">${bytes(record.payload.bytes)}</td>
      <td class="preview"><code>${preview}</code></td>
    </tr>
    ${
      isOpen &&
      html`<tr class="detail">
        <td colspan="5"><${Whole} name=${name} record=${record} /></td>
      </tr>`
    }`;
}

// From a shard and a sequence number on, if the address has them.
export function Records({name, shards, shard = '', sequence = ''}) {
  const [form, setForm] = useState({
    position: sequence ? 'sequence' : 'newest',
    at: sequence,
    shard,
    search: '',
    limit: '50',
  });
  const [asked, ask] = useState(form),
    [again, setAgain] = useState(0),
    [open, setOpen] = useState(null);
  const [filters, setFilters] = useState(() => stored(name));
  const change = (values) => setForm({...form, ...values});
  const go = (values = {}) => {
    const next = {...form, ...values};
    setForm(next);
    ask(next);
    setAgain(again + 1);
  };
  const keep = (next) => {
    localStorage.setItem(`headrace.filters.${name}`, JSON.stringify(next));
    setFilters(next);
  };
  const params = {
    ...asked,
    at:
      asked.position === 'time' && asked.at && !/^\d+$/.test(asked.at)
        ? String(Date.parse(asked.at.endsWith('Z') ? asked.at : `${asked.at}Z`))
        : asked.at,
  };
  return html`<${Timeline} name=${name} choose=${(ms) => go({position: 'time', at: new Date(ms).toISOString().slice(0, 23)})} />
    <form class="row ask" onSubmit=${(e) => {
      e.preventDefault();
      go();
    }}>
      <label>From <select value=${form.position} onChange=${(e) => change({position: e.target.value})}>${[
        ['newest', 'newest'],
        ['oldest', 'oldest'],
        ['time', 'time (UTC)'],
        ['sequence', 'sequence number'],
      ].map(([key, text]) => html`<option value=${key}>${text}</option>`)}</select></label>
      ${(form.position === 'time' || form.position === 'sequence') && html`<label>At <input size="28" required value=${form.at} placeholder=${form.position === 'time' ? '2026-11-27T08:00:00' : '4968…'} onInput=${(e) => change({at: e.target.value})} /></label>`}
      <label>Shard <select value=${form.shard} onChange=${(e) => change({shard: e.target.value})}><option value="">all</option>${shards.map((one) => html`<option value=${one.shardId}>${shortShard(one.shardId)}${one.isOpen ? '' : ' (closed)'}</option>`)}</select></label>
      <label>Search <input type="search" value=${form.search} placeholder="text in key or payload" onInput=${(e) => change({search: e.target.value})} /></label>
      <label>Most <select value=${form.limit} onChange=${(e) => change({limit: e.target.value})}>${['20', '50', '200', '500'].map((n) => html`<option>${n}</option>`)}</select></label>
      <button class="main">Read</button>${form.search && html`<button type="button" onClick=${() => keep([...filters.filter((f) => f.search !== form.search), form])}>Keep filter</button>`}</form>
    <${Schema} name=${name} />
    ${filters.length > 0 && html`<div class="chips" role="group" aria-label="Kept filters">${filters.map((one) => html`<span class="kept"><button class="chip" onClick=${() => go(one)}>${one.search}</button><button class="chip" aria-label=${`Forget filter ${one.search}`} onClick=${() => keep(filters.filter((f) => f !== one))}>×</button></span>`)}</div>`}
    <${Load} path=${`streams/${encodeURIComponent(name)}/records`} params=${params} again=${again}>${(value) =>
      value.records.length
        ? html`${value.isSearchCut && html`<p class="dim">The search ended after ${amount(value.searched)} records; set a later position to go on.</p>`}
            <div class="scroll" tabindex="0" role="region" aria-label="Records">
              <table class="records">
                <colgroup>
                  <col class="c1" />
                  <col class="c2" />
                  <col class="c3" />
                  <col class="c4" />
                  <col />
                </colgroup>
                <thead>
                  <tr>
                    <th>Arrived (UTC)</th>
                    <th>Shard</th>
                    <th>Key</th>
                    <th class="number">Size</th>
                    <th>Payload</th>
                  </tr>
                </thead>
                <tbody>
                  ${(asked.position === 'newest' ? [...value.records].reverse() : value.records).map((one) => html`<${Line} key=${one.shardId + one.sequenceNumber} name=${name} record=${one} isOpen=${open === one.sequenceNumber} toggle=${() => setOpen(open === one.sequenceNumber ? null : one.sequenceNumber)} />`)}
                </tbody>
              </table>
            </div>`
        : html`<${Empty}
            title="No records here. Put one:"
            command=${`aws kinesis put-record --stream-name ${quote(name)} --partition-key key --data 'hello' --cli-binary-format raw-in-base64-out`}
          />`}</${Load}>`;
}
