// Drives Kinesis through AWS's SDK for JavaScript, and prints what it saw as JSON.
// node kinesis.mjs ENDPOINT STREAM http1|default
import {
  CreateStreamCommand,
  DeleteStreamCommand,
  DescribeStreamCommand,
  DescribeStreamConsumerCommand,
  GetRecordsCommand,
  GetShardIteratorCommand,
  KinesisClient,
  ListShardsCommand,
  PutRecordCommand,
  PutRecordsCommand,
  RegisterStreamConsumerCommand,
  SplitShardCommand,
  SubscribeToShardCommand,
  waitUntilStreamExists,
} from "@aws-sdk/client-kinesis";
import { NodeHttpHandler } from "@smithy/node-http-handler";

const [endpoint, StreamName, transport] = process.argv.slice(2);
const client = new KinesisClient({
  endpoint,
  region: "us-east-1",
  credentials: {
    accessKeyId: process.env.AWS_ACCESS_KEY_ID ?? "test",
    secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY ?? "test",
  },
  maxAttempts: 1,
  ...(transport === "http1" ? { requestHandler: new NodeHttpHandler() } : {}),
});
const text = (bytes) => Buffer.from(bytes).toString("utf8");
const seen = { handler: client.config.requestHandler.constructor.name };

await client.send(new CreateStreamCommand({ StreamName, ShardCount: 1 }));
await waitUntilStreamExists({ client, maxWaitTime: 20, minDelay: 1 }, { StreamName });

const one = await client.send(
  new PutRecordCommand({ StreamName, Data: Buffer.from("one ✓"), PartitionKey: "ключ" }),
);
seen.number = one.SequenceNumber;
const many = await client.send(
  new PutRecordsCommand({
    StreamName,
    Records: ["two", "three"].map((data) => ({ Data: Buffer.from(data), PartitionKey: data })),
  }),
);
seen.failed = many.FailedRecordCount;

const { ShardIterator } = await client.send(
  new GetShardIteratorCommand({ StreamName, ShardId: one.ShardId, ShardIteratorType: "TRIM_HORIZON" }),
);
const got = await client.send(new GetRecordsCommand({ ShardIterator }));
seen.got = got.Records.map((record) => text(record.Data));
seen.key = got.Records[0].PartitionKey;
seen.arrivedSecondsAgo = (Date.now() - got.Records[0].ApproximateArrivalTimestamp.getTime()) / 1000;

try {
  await client.send(new DescribeStreamCommand({ StreamName: "nowhere" }));
} catch (error) {
  seen.error = { name: error.name, message: error.message, status: error.$metadata.httpStatusCode };
}

const { StreamDescription } = await client.send(new DescribeStreamCommand({ StreamName }));
const { Consumer } = await client.send(
  new RegisterStreamConsumerCommand({ StreamARN: StreamDescription.StreamARN, ConsumerName: "js" }),
);
for (;;) {
  const { ConsumerDescription } = await client.send(
    new DescribeStreamConsumerCommand({ ConsumerARN: Consumer.ConsumerARN }),
  );
  if (ConsumerDescription.ConsumerStatus === "ACTIVE") break;
  await new Promise((resolve) => setTimeout(resolve, 50));
}

// What was put before is pushed at once; what is put meanwhile follows; a split ends the shard and the stream of events.
const { EventStream } = await client.send(
  new SubscribeToShardCommand({
    ConsumerARN: Consumer.ConsumerARN,
    ShardId: one.ShardId,
    StartingPosition: { Type: "TRIM_HORIZON" },
  }),
);
seen.pushed = [];
let isPut = false;
for await (const { SubscribeToShardEvent } of EventStream) {
  for (const record of SubscribeToShardEvent.Records) seen.pushed.push(text(record.Data));
  seen.continuation = SubscribeToShardEvent.ContinuationSequenceNumber ?? seen.continuation;
  if (seen.pushed.length === 3 && !isPut) {
    isPut = true;
    await client.send(
      new PutRecordCommand({ StreamName, Data: Buffer.from("four"), PartitionKey: "four" }),
    );
    const half = (2n ** 127n).toString();
    await client.send(
      new SplitShardCommand({ StreamName, ShardToSplit: one.ShardId, NewStartingHashKey: half }),
    );
  }
  if (SubscribeToShardEvent.ChildShards?.length) {
    seen.children = SubscribeToShardEvent.ChildShards.map((child) => child.ShardId);
  }
}

const { Shards } = await client.send(new ListShardsCommand({ StreamName }));
seen.shards = Shards.map((shard) => shard.ShardId);
await client.send(new DeleteStreamCommand({ StreamName, EnforceConsumerDeletion: true }));
client.destroy();
console.log(JSON.stringify(seen));
