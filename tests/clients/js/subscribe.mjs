// Subscribes to a stream's first shard from its beginning, through AWS's SDK for JavaScript as it comes (HTTP/2), and
// prints as JSON what came. The records' data are the numbers 0, 1, 2, and so on.
// node subscribe.mjs ENDPOINT CONSUMER_ARN[,CONSUMER_ARN...] RECORDS [abort|destroy]
//   abort: end the first subscription by its AbortSignal (RST_STREAM) after its first event, then subscribe again.
//   destroy: close the session (GOAWAY, then the socket) after the first event, then subscribe with a new client.
// Without an ending it reads on until the server ends the subscription, or, with all records there, ends it itself.
import { KinesisClient, SubscribeToShardCommand } from "@aws-sdk/client-kinesis";

const [endpoint, arns, expected, ending] = process.argv.slice(2);
const newClient = () =>
  new KinesisClient({
    endpoint,
    region: "us-east-1",
    credentials: { accessKeyId: "test", secretAccessKey: "test" },
    maxAttempts: 1,
  });
let client = newClient();

async function subscribe(ConsumerARN, from, onEvent) {
  const StartingPosition = from
    ? { Type: "AFTER_SEQUENCE_NUMBER", SequenceNumber: from }
    : { Type: "TRIM_HORIZON" };
  const controller = new AbortController();
  const { EventStream } = await client.send(
    new SubscribeToShardCommand({ ConsumerARN, ShardId: "shardId-000000000000", StartingPosition }),
    { abortSignal: controller.signal },
  );
  for await (const { SubscribeToShardEvent: event } of EventStream) {
    if (onEvent(event, controller)) {
      controller.abort(); // a stream that is only left open keeps the program running
      return;
    }
  }
}

async function read(ConsumerARN) {
  const seen = { records: 0, firstWrong: null, events: 0, subscriptions: 0, last: "" };
  const take = (event) => {
    seen.events += 1;
    for (const record of event.Records) {
      const number = Number(Buffer.from(record.Data).toString());
      if (number !== seen.records && seen.firstWrong === null) seen.firstWrong = number;
      seen.records += 1;
    }
    seen.last = event.ContinuationSequenceNumber;
    return seen.records >= Number(expected);
  };
  if (ending) {
    seen.subscriptions += 1;
    try {
      await subscribe(ConsumerARN, "", (event, controller) => {
        const isDone = take(event);
        if (ending === "abort") controller.abort();
        else client.destroy();
        return isDone || ending === "destroy";
      });
    } catch (error) {
      seen.ended = error.name;
    }
    if (ending === "destroy") client = newClient();
  }
  while (seen.records < Number(expected)) {
    try {
      await subscribe(ConsumerARN, seen.last, take);
      seen.subscriptions += 1;
    } catch (error) {
      // The reset goes over another connection than the new call, which may be there first: AWS refuses it as well.
      if (!ending || error.name !== "ResourceInUseException") throw error;
      await new Promise((resume) => setTimeout(resume, 50));
    }
  }
  return seen;
}

const startedMs = Date.now();
const consumers = await Promise.all(arns.split(",").map(read));
client.destroy();
console.log(JSON.stringify({ consumers, tookMs: Date.now() - startedMs }));
