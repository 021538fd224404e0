// What a web application does with AWS's SDK: bundled by esbuild for tests/security/test_browser.py.
import {FirehoseClient, PutRecordCommand as PutToFirehose} from '@aws-sdk/client-firehose';
import {GetRecordsCommand, GetShardIteratorCommand, KinesisClient, PutRecordCommand} from '@aws-sdk/client-kinesis';
import {InvokeCommand, LambdaClient} from '@aws-sdk/client-lambda';
import {GetObjectCommand, PutObjectCommand, S3Client} from '@aws-sdk/client-s3';

const configuration = {
  endpoint: window.endpoint,
  region: 'us-east-1',
  credentials: {accessKeyId: 'test', secretAccessKey: 'test'},
  maxAttempts: 1,
};
const bytes = new TextEncoder();
const text = new TextDecoder();

async function kinesis() {
  const client = new KinesisClient(configuration);
  const put = await client.send(
    new PutRecordCommand({StreamName: 'web', PartitionKey: 'k', Data: bytes.encode('from a page')}),
  );
  const {ShardIterator} = await client.send(
    new GetShardIteratorCommand({StreamName: 'web', ShardId: put.ShardId, ShardIteratorType: 'TRIM_HORIZON'}),
  );
  const got = await client.send(new GetRecordsCommand({ShardIterator}));
  return {put: put.ShardId, requestId: put.$metadata.requestId, got: got.Records.map((r) => text.decode(r.Data))};
}

async function refusal() {
  try {
    const client = new KinesisClient(configuration);
    await client.send(new PutRecordCommand({StreamName: 'nowhere', PartitionKey: 'k', Data: bytes.encode('x')}));
    return 'no refusal';
  } catch (error) {
    return error.name;
  }
}

async function invoke() {
  const client = new LambdaClient(configuration);
  const answer = await client.send(
    new InvokeCommand({FunctionName: 'web', Payload: bytes.encode('{"from":"a page"}'), LogType: 'Tail'}),
  );
  return {payload: JSON.parse(text.decode(answer.Payload)), log: typeof answer.LogResult};
}

async function firehose() {
  const client = new FirehoseClient(configuration);
  const answer = await client.send(
    new PutToFirehose({DeliveryStreamName: 'web', Record: {Data: bytes.encode('from a page')}}),
  );
  return typeof answer.RecordId;
}

async function s3() {
  const client = new S3Client({...configuration, forcePathStyle: true});
  await client.send(new PutObjectCommand({Bucket: 'web', Key: 'key', Body: 'from a page'}));
  const got = await client.send(new GetObjectCommand({Bucket: 'web', Key: 'key'}));
  return {text: await got.Body.transformToString(), etag: got.ETag};
}

const result = {};
for (const [name, doing] of Object.entries({kinesis, refusal, invoke, firehose, s3})) {
  try {
    result[name] = await doing();
  } catch (error) {
    result[name] = `${error.name}: ${error.message}`;
  }
}
window.result = result;
