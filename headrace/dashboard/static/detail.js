// The pages of one function, delivery, job, stack; of what AWS would deny; and of what goes to AWS.
import {Charts} from './charts.js';
import {Drawing} from './front.js';
import {Batches, Payload} from './records.js';
import {
  Arriving,
  Copy,
  CopyCalls,
  CopyOperation,
  Empty,
  Load,
  Refusals,
  State,
  amount,
  bytes,
  html,
  isListed,
  many,
  post,
  quote,
  rate,
  reading,
  resources,
  session,
  shortShard,
  span,
  tell,
  useEvery,
  useRef,
  useState,
  when,
} from './lib.js';

function Head({name, kind, state, words, children}) {
  return html`<div class="head">
    <h1>${name}</h1>
    <span class="kind">${kind}</span><${State} value=${state} />${words && html`<span class="dim">${words}</span>`}<span
      class="grow"
    ></span
    >${children}
  </div>`;
}
function Table({label, columns, rows}) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead>
        <tr>
          ${columns.map((one) => html`<th>${one}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map((cell) => html`<td>${cell}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
function Figures({id, names}) {
  const row = reading(id).value.row;
  const all = {Rate: rate(row?.[0]), Errors: rate(row?.[2]), Waiting: amount(row?.[3]), Lag: span(row?.[4])};
  // A figure that the kind does not have is left out.
  return html`<dl class="figures">
      ${names
        .filter((name) => all[name] !== '–')
        .map(
          (name) =>
            html`<div>
              <dt>${name}</dt>
              <dd>${all[name]}</dd>
            </div>`,
        )}
    </dl>
    ${row?.[5] && html`<div class="refused failing" role="alert">${row[5]}</div>`}`;
}

function Durations({list}) {
  const most = Math.max(...list.map((one) => one.count), 1);
  return html`<div
    class="histogram"
    role="img"
    aria-label=${`Durations: ${list.map((one) => `${one.count} up to ${one.upToMs} ms`).join(', ')}`}
  >
    ${list.map((one) => html`<div><span style=${{height: `${Math.max(3, (100 * one.count) / most)}px`}}></span><small>≤ ${span(one.upToMs)}</small><small>${amount(one.count)}</small></div>`)}
  </div>`;
}

function Redrive({arn}) {
  if (!arn.includes(':sqs:') || session.value?.isReadOnly) return null;
  return html`${' '}<button
      onClick=${() => tell(() => post('redrive', {queueArn: arn}), 'The queue sends its messages back.')}
    >
      Redrive
    </button>`;
}

export function Function_({name}) {
  const again = useEvery(3);
  return html`<${Load} path=${`functions/${encodeURIComponent(name)}`} again=${again}>${(
    value,
  ) => html`<${Head} name=${name} kind="function" state=${value.state} words=${`${value.runtime}, ${value.memoryMiB} MiB, ${value.timeoutS} s`}>
    <${CopyCalls} cli=${`aws lambda invoke --function-name ${quote(name)} --payload '{}' --cli-binary-format raw-in-base64-out /dev/stdout`} boto=${`boto3.client("lambda").invoke(FunctionName=${JSON.stringify(name)}, Payload=b"{}")["Payload"].read()`} /></${Head}>
    <${Refusals} list=${value.refused} /><${Figures} id=${`function:${name}`} names=${['Rate', 'Errors']} />
    <section><h2>Reads from</h2>${value.mappings.length ? html`<${Table} label="Mappings" columns=${['Source', 'State', 'Last result', 'Batch size', 'Retries', 'Failed records go to']} rows=${value.mappings.map((one) => [one.source.split(':').pop(), html`<${State} value=${one.state} />`, one.lastResult, one.batchSize, one.retries === -1 ? 'until expiry' : one.retries, html`${one.onFailure.split(':').pop() || 'nowhere'}<${Redrive} arn=${one.onFailure} />`])} />` : html`<p class="dim">Nothing: it runs when it is invoked.</p>`}</section>
    ${value.batches.map(
      (one) =>
        html`<section>
          <h2>Batches of ${one.source.split(':').pop()}</h2>
          ${one.trees.length ? html`<${Batches} trees=${[...one.trees].reverse()} stream=${one.source.includes(':stream/') && !one.source.includes(':table/') ? one.source.split('/').pop() : ''} />` : html`<p class="dim">No batches yet.</p>`}
        </section>`,
    )}
    ${
      value.durations.length > 0 &&
      html`<section>
        <h2>Durations since the start</h2>
        <${Durations} list=${value.durations} />
      </section>`
    }
    <${Charts} id=${`function:${name}`} />
    <section><h2>Newest log lines</h2>${value.logs.length ? html`<pre class="logs" tabindex="0">${value.logs.map((one) => `${when(one.timeMs)}  ${one.text.trimEnd()}`).join('\n')}</pre>` : html`<p class="dim">It has written nothing yet.</p>`}</section>`}</${Load}>`;
}

function Failed({name}) {
  const [again, setAgain] = useState(0),
    isEmpty = useRef(true),
    every = useEvery(10);
  // While records fail, and until the first is there, the list is read again by itself.
  const isChanging = isEmpty.current || reading(`delivery:${name}`).value.row?.[2] > 0;
  const redrive = async (key) => {
    await tell(
      () => post('redrive-failed', {delivery: name, key}),
      (done) =>
        `${many(done.sent, 'record')} put again to ${done.target}${done.before ? `, ${done.before} before` : ''}.`,
    );
    setAgain((count) => count + 1);
  };
  return html`<section><div class="row"><h2>Failed records</h2><span class="grow"></span><button class="quiet" onClick=${() => setAgain(again + 1)}>Read again</button></div>
    <${Load} path=${`deliveries/${encodeURIComponent(name)}/failed`} again=${again * 1e6 + (isChanging ? every : 0)}>${(
      value,
    ) => {
      isEmpty.current = !value.objects.length;
      return html`<${Refusals} list=${value.refused} />
        ${!value.objects.length && html`<p class="dim">None below <code>${value.prefix || '(no prefix)'}</code>.</p>`}
        ${value.objects.map(
          (one) =>
            html`<details open=${one.records.length > 0}>
              <summary>
                <code>${one.key}</code>
                ${' '}${many(one.count, 'record')}${one.sent > 0 ? `, ${amount(one.sent)} put again` : ''}${one.uncertain > 0 ? `, ${amount(one.uncertain)} uncertain: headrace redrive --uncertain-again` : ''}
              </summary>
              ${one.problem && html`<div class="refused" role="alert">${one.problem}</div>`}
              ${!session.value?.isReadOnly && value.target && one.records.some((row) => !row.isSent) && html`<button class="main" onClick=${() => redrive(one.key)}>Put again to ${value.target}</button>${value.target.startsWith('kinesis:') && html` <span class="dim">The stream's other readers get them again too.</span>`}`}
              ${one.records.length > 0 && html`<${Table} label=${`Failed records of ${one.key}`} columns=${['Arrived (UTC)', 'Reason', 'Data', '']} rows=${one.records.map((row) => [row.arrivedMs ? when(row.arrivedMs) : '–', html`<strong>${row.code}</strong> ${row.message}`, html`<code>${row.payload.data.slice(0, 300)}</code>`, row.isSent ? 'put again' : ''])} />`}
            </details>`,
        )}
        ${value.isCut && html`<p class="dim">Older ones are not listed here: <code>headrace redrive s3://${value.bucket}/${value.prefix}</code></p>`}`;
    }}</${Load}></section>`;
}

function Opened({name, path}) {
  return html`<${Load} path=${`deliveries/${encodeURIComponent(name)}/object`} params=${{key: path}}>${(value) =>
    value.payload
      ? html`<${Payload} payload=${value.payload} />`
      : html`<p class="dim">
            ${amount(value.total)}
            ${' '}rows${value.rows.length < value.total ? `, the first ${value.rows.length} here` : ''}${value.columns.length < value.allColumns ? `; ${value.columns.length} of ${value.allColumns} columns` : ''}.
          </p>
          <${Table}
            label=${`Rows of ${path}`}
            columns=${value.columns.map((one) => html`${one.name} <small class="dim">${one.type}</small>`)}
            rows=${value.rows.map((row) => row.map((cell) => (cell == null ? html`<span class="dim">null</span>` : cell)))}
          />`}</${Load}>`;
}

// The folders of the newest objects: one for each partition.
function Partitions({list}) {
  const folders = new Map();
  for (const one of list) {
    const folder = one.key.slice(0, one.key.lastIndexOf('/') + 1),
      known = folders.get(folder) || {count: 0, size: 0, timeMs: 0};
    folders.set(folder, {
      count: known.count + 1,
      size: known.size + one.bytes,
      timeMs: Math.max(known.timeMs, one.timeMs),
    });
  }
  return (
    folders.size > 1 &&
    html`<h3>Partitions of the newest objects</h3>
      <${Table}
        label="Partitions"
        columns=${['Folder', 'Objects', 'Size', 'Newest (UTC)']}
        rows=${[...folders].map(([folder, one]) => [html`<code>${folder || '(none)'}</code>`, one.count, bytes(one.size), when(one.timeMs)])}
      />`
  );
}

function Objects({name, list}) {
  const [open, setOpen] = useState('');
  return html`<${Table}
      label="Objects"
      columns=${['Written (UTC)', 'Key', 'Size']}
      rows=${list.map((one) => [when(one.timeMs), html`<button class="plain" aria-expanded=${open === one.key ? 'true' : 'false'} onClick=${() => setOpen(open === one.key ? '' : one.key)}><code>${one.key}</code></button>`, bytes(one.bytes)])}
    />
    <${Partitions} list=${list} />${
      open &&
      html`<h3>${open}</h3>
        <${Opened} name=${name} path=${open} />`
    }`;
}

export function Delivery({name}) {
  const again = useEvery(3);
  return html`<${Load} path=${`deliveries/${encodeURIComponent(name)}`} again=${again}>${(
    value,
  ) => html`<${Head} name=${name} kind="delivery" state=${value.state}>
    <${CopyCalls} cli=${`aws firehose describe-delivery-stream --delivery-stream-name ${quote(name)}`} boto=${`boto3.client("firehose").describe_delivery_stream(DeliveryStreamName=${JSON.stringify(name)})`} /></${Head}>
    <${Refusals} list=${value.refused} /><${Figures} id=${`delivery:${name}`} names=${['Rate', 'Errors', 'Waiting', 'Lag']} />
    <dl class="facts"><dt>Bucket</dt><dd>${value.bucket || '–'}</dd><dt>Prefix</dt><dd><code>${value.prefix || '(none)'}</code></dd><dt>Failed records</dt><dd><code>${value.errorPrefix || '(the same prefix)'}</code></dd><dt>Form</dt><dd>${value.format}, ${value.compression || 'not compressed'}</dd><dt>Buffer</dt><dd>${value.buffer.SizeInMBs ?? '–'} MiB or ${value.buffer.IntervalInSeconds ?? '–'} s</dd></dl>
    <${Charts} id=${`delivery:${name}`} />
    <section><h2>Newest objects</h2>${value.objects.length ? html`<${Objects} name=${name} list=${value.objects} />` : html`<p class="dim">No objects yet: the first is written when a buffer is full or its time is over.</p>`}</section>`}</${Load}><${Failed} name=${name} />`;
}

const utc = (iso) => iso.replace('T', ' ').replace(/(\.000)?Z$/, '');

function Query({query}) {
  const newest = query.batches[query.batches.length - 1];
  const behind = newest.inputPerS > newest.processedPerS;
  return html`<section>
    <h2>Query ${query.name || query.id}</h2>
    <dl class="figures">
      <div>
        <dt>Input</dt>
        <dd>${rate(newest.inputPerS)}</dd>
      </div>
      <div>
        <dt>Processed</dt>
        <dd>${rate(newest.processedPerS)}</dd>
      </div>
      <div>
        <dt>State rows</dt>
        <dd>${amount(newest.stateRows)}</dd>
      </div>
      <div>
        <dt>State</dt>
        <dd>${bytes(newest.stateBytes)}</dd>
      </div>
      <div>
        <dt>Watermark</dt>
        <dd>${utc(newest.watermark) || 'none'}</dd>
      </div>
    </dl>
    ${behind && html`<div class="refused" role="note">More rows arrive than the query processes.</div>`}
    <${Table}
      label=${`Micro-batches of ${query.name || query.id}`}
      columns=${['Begun (UTC)', 'Batch', 'Took', 'Rows', 'Input', 'Processed', 'Watermark', 'State rows', 'Too late']}
      rows=${[...query.batches]
        .reverse()
        .slice(0, 50)
        .map((one) => [
          utc(one.at),
          one.batchId,
          span(one.durationMs),
          amount(one.rows),
          rate(one.inputPerS),
          rate(one.processedPerS),
          utc(one.watermark) || '–',
          amount(one.stateRows),
          amount(one.late),
        ])}
    />
  </section>`;
}

export function Job({holder, id}) {
  const again = useEvery(3);
  return html`<${Load} path=${`jobs/${encodeURIComponent(holder)}/${encodeURIComponent(id)}`} again=${again}>${(
    value,
  ) => html`<${Head} name=${value.title} kind="job" state=${value.state}><${CopyOperation} ...${holder.startsWith('j-') ? {service: 'emr', operation: 'DescribeStep', params: {ClusterId: holder, StepId: id}} : {service: 'emr-serverless', operation: 'GetJobRun', params: {applicationId: holder, jobRunId: id}}} /></${Head}>
    ${value.problem && html`<div class="refused failing" role="alert">${value.problem}</div>`}
    <dl class="facts"><dt>Runs on</dt><dd>${value.holder}</dd><dt>Started</dt><dd>${when(value.startedMs)}</dd><dt>Ended</dt><dd>${when(value.endedMs)}</dd><dt>Lasted</dt><dd>${value.startedMs && value.endedMs ? span(value.endedMs - value.startedMs) : '–'}</dd></dl>
    ${value.queries.map((one) => html`<${Query} key=${one.id} query=${one} />`)}
    <section><h2>Command</h2><pre tabindex="0">${value.arguments.map(quote).join(' \\\n  ')}</pre></section>
    ${value.page && html`<p><a href=${value.page}>Its logs and Spark's own pages</a></p>`}`}</${Load}>`;
}

export function Stack({name}) {
  const again = useEvery(3);
  return html`<${Load} path=${`stacks/${encodeURIComponent(name)}`} again=${again}>${(
    value,
  ) => html`<${Head} name=${name} kind="stack" state=${value.state}><${CopyOperation} service="cloudformation" operation="DescribeStacks" params=${{StackName: name}} /></${Head}>
    ${value.reason && html`<div class="refused">${value.reason}</div>`}<${Refusals} list=${value.refused} />
    ${
      value.outputs.length > 0 &&
      html`<section>
        <h2>Outputs</h2>
        <${Table}
          label="Outputs"
          columns=${['Name', 'Value']}
          rows=${value.outputs.map((one) => [one.key, html`<code>${one.value}</code>`])}
        />
      </section>`
    }
    <section><h2>Resources</h2><${Table} label="Resources" columns=${['Name', 'Type', 'State', 'Id']} rows=${value.resources.map((one) => [one.logicalId, one.type, html`<${State} value=${one.state} />`, html`<code>${one.physicalId}</code>`])} /></section>
    <section><h2>Stored without effect</h2>${value.withoutEffect.length ? html`<${Table} label="Without effect" columns=${['Service', 'Property', 'How', 'Note']} rows=${value.withoutEffect.map((one) => [one.service, one.property, one.level, one.note || ''])} />` : html`<p class="dim">Nothing: every property that the stack sets has its effect.</p>`}</section>
    <section><h2>Events</h2><${Table} label="Events" columns=${['Time (UTC)', 'Resource', 'State', 'Reason']} rows=${value.events.map((one) => [when(one.timeMs), one.logicalId, html`<${State} value=${one.state} />`, one.reason])} /></section>`}</${Load}>`;
}

// retentionHours: Retention hours; url: URL.
const wordsOf = (key) =>
  key === 'url'
    ? 'URL'
    : key
        .replace(/([A-Z])/g, ' $1')
        .toLowerCase()
        .replace(/^./, (letter) => letter.toUpperCase());

// The part of the map around a resource.
function Neighbours({id, again}) {
  return html`<${Load} path="map" again=${again}>${({resources: all, edges}) => {
    const near = edges.filter((edge) => edge.start === id || edge.end === id);
    const ids = new Set([id, ...near.flatMap((edge) => [edge.start, edge.end])]);
    return (
      near.length > 0 &&
      html`<${Drawing}
        value=${{resources: all.filter((row) => ids.has(row.id)), edges: near}}
        label="What it reads from and feeds"
      />`
    );
  }}</${Load}>`;
}

// By the kind of a resource, the operation that describes it.
const DESCRIBED = {
  queue: (one) => ({
    service: 'sqs',
    operation: 'GetQueueAttributes',
    params: {QueueUrl: one.facts.url || one.name, AttributeNames: ['All']},
  }),
  topic: (one) => ({service: 'sns', operation: 'GetTopicAttributes', params: {TopicArn: one.arn}}),
  table: (one) => ({service: 'dynamodb', operation: 'DescribeTable', params: {TableName: one.name}}),
  bucket: (one) => ({service: 's3', command: 's3api', operation: 'HeadBucket', params: {Bucket: one.name}}),
  bus: (one) => ({service: 'events', operation: 'DescribeEventBus', params: {Name: one.name}}),
  'kinesis queue': (one) => ({service: 'kinesis', operation: 'DescribeQueue', params: {QueueARN: one.arn}}),
  channel: (one) => ({service: 'kinesis', operation: 'DescribeChannel', params: {ChannelARN: one.arn}}),
  pipe: (one) => ({service: 'pipes', operation: 'DescribePipe', params: {Name: one.name}}),
  rule: (one) => {
    // A partner's bus has slashes in its own name.
    const end = one.name.lastIndexOf('/'),
      [bus, name] = end < 0 ? ['default', one.name] : [one.name.slice(0, end), one.name.slice(end + 1)];
    return {service: 'events', operation: 'DescribeRule', params: {Name: name, EventBusName: bus}};
  },
};

export function Other({id}) {
  if (!isListed.value) return html`<${Arriving} />`;
  const one = resources.value.find((row) => row.id === id);
  if (!one) return html`<${Empty} title=${`There is no ${id.replace(':', ' ')}.`} />`;
  const describe = DESCRIBED[one.kind]?.(one);
  const facts = Object.entries(one.facts).filter(([, value]) => value !== false && value != null && value !== '');
  return html`<${Head} name=${one.name} kind=${one.kind} state=${one.state}>${describe && html`<${CopyOperation} ...${describe} />`}${one.kind === 'queue' && html`<${Redrive} arn=${one.arn} />`}</${Head}><${Figures} id=${id} names=${['Rate', 'Errors', 'Waiting', 'Lag']} />
    <dl class="facts">${
      one.arn &&
      html`<dt>ARN</dt>
        <dd><code>${one.arn}</code></dd>`
    }${facts.map(
      ([key, value]) =>
        html`<dt>${wordsOf(key)}</dt>
          <dd>${value === true ? 'yes' : String(value)}</dd>`,
    )}</dl>
    <${Neighbours} id=${id} again=${resources.value} />
    ${reading(id).value.row && html`<${Charts} id=${id} />`}`;
}

export function Permissions() {
  return html`<div class="head"><h1>Permissions</h1><span class="dim">What AWS would deny.</span></div><${Load} path="permissions">${(
    value,
  ) =>
    !value.isKnown
      ? html`<p class="dim">Only a headrace cloud records what its callers were allowed.</p>`
      : value.denied.length
        ? html`<${Table}
            label="Denied"
            columns=${['Who', 'Action', 'Resource', 'Why', 'Times', 'Last (UTC)']}
            rows=${value.denied.map((one) => [html`<code class="arn">${one.principal}</code>`, html`<code class="whole">${one.action}</code>`, html`<code class="arn">${one.resource}</code>`, one.reason, amount(one.count), html`<span class="whole">${one.last.slice(0, 19).replace('T', ' ')}</span>`])}
          />`
        : html`<p>
            Nothing was denied. Looked at: ${amount(value.accesses)} accesses of ${many(value.callers, 'caller')}.
          </p>`}</${Load}>`;
}

// Firehose's age is in seconds, Lambda's in milliseconds.
const isFirehose = (alarm) => (alarm.Namespace || alarm.Metrics[0].MetricStat.Metric.Namespace) === 'AWS/Firehose';
const metricOf = (alarm) =>
  alarm.Metrics
    ? html`<code>${alarm.Metrics[1].Expression}</code>, age = ${alarm.Metrics[0].MetricStat.Metric.MetricName}`
    : alarm.MetricName;

function Forecast({one}) {
  const slope =
    one.slope == null
      ? '–'
      : Math.abs(one.slope) < 0.001
        ? 'steady'
        : one.slope < 0
          ? `falls ${span(-one.slope * 1000)} a second`
          : `grows ${span(one.slope * 1000)} a second`;
  const end =
    one.ageS == null
      ? 'no age yet'
      : one.expiresInS == null
        ? 'not at this slope'
        : `in ${span(one.expiresInS * 1000)}`;
  return html`<tr>
    <td>
      <a
        href=${`#/${one.reader.startsWith('function:') ? 'functions' : 'deliveries'}/${encodeURIComponent(one.reader.replace(/^.*?:/, ''))}`}
        >${one.reader.replace(':', ' ')}</a
      >
    </td>
    <td class="number">${one.ageS == null ? '–' : span(one.ageS * 1000)}</td>
    <td class="number">${slope}</td>
    <td class="number">${one.retentionS / 3600} h</td>
    <td><span class=${one.isDue ? 'bad' : ''}>${end}</span></td>
  </tr>`;
}

function Alarms() {
  const again = useEvery(10);
  return html`<${Load} path="export/alarms" again=${again}>${({alarms, forecasts}) =>
    alarms.length
      ? html`<section>
            <h2>Forecast</h2>
            <div class="scroll" tabindex="0" role="region" aria-label="Forecast">
              <table>
                <thead>
                  <tr>
                    <th>Reader</th>
                    <th class="number">Age</th>
                    <th class="number">Slope</th>
                    <th class="number">Retention</th>
                    <th>Records expire</th>
                  </tr>
                </thead>
                <tbody>
                  ${forecasts.map((one) => html`<${Forecast} key=${one.reader} one=${one} />`)}
                </tbody>
              </table>
            </div>
          </section>
          <section>
            <div class="row">
              <h2>Suggested alarms</h2>
              <span class="grow"></span
              ><${Copy} text=${JSON.stringify(alarms, null, 2)} label="Copy for PutMetricAlarm" />
            </div>
            <${Table}
              label="Alarms"
              columns=${['Alarm', 'Metric', 'From', 'Why']}
              rows=${alarms.map((one) => [html`<span class="whole">${one.AlarmName}</span>`, metricOf(one), html`<span class="whole">${span(one.Threshold * (isFirehose(one) ? 1000 : 1))}</span>`, one.AlarmDescription])}
            />
          </section>`
      : html`<section>
          <h2>Suggested alarms</h2>
          <p class="dim">No function or delivery reads a stream: there is no age to watch.</p>
        </section>`}</${Load}>`;
}

export function Export() {
  return html`<div class="head"><h1>For AWS</h1><span class="dim">The same figures as a CloudWatch dashboard, as CDK code, and alarms.</span></div>
    <${Alarms} />
    <section><div class="row"><h2>CDK (Python)</h2></div><${Load} path="export/cdk">${({code}) =>
      html`<${Copy} text=${code} label="Copy the code" />
        <pre tabindex="0">${code.slice(0, 4000)}${code.length > 4000 ? '\n…' : ''}</pre>`}</${Load}></section>
    <section><h2>CloudWatch dashboard</h2><${Load} path="export/cloudwatch">${(value) =>
      html`<${Copy} text=${JSON.stringify(value)} label="Copy the JSON" />
        <pre tabindex="0">${JSON.stringify(value, null, 2).slice(0, 3000)}</pre>`}</${Load}></section>`;
}

export function More() {
  const [list, setList] = useState(null);
  if (!list)
    fetch('/_headrace/?format=json')
      .then((answer) => answer.json())
      .then((value) => setList(Object.entries(value.pages)))
      .catch(() => setList([]));
  return html`<div class="head"><h1>More pages</h1></div>
    <section>
      <ul class="links">
        ${(list || []).map(([url, title]) => html`<li><a href=${url.replace(/^https?:\/\/[^/]*/, '')}>${title}</a></li>`)}
      </ul>
    </section>`;
}
