"""boto3 over a socket: as users configure it, retries and validation on."""

from __future__ import annotations

import threading

import boto3

from tests.support.server import ServerProcess, wait_until


def test_boto3_as_users_have_it(server: ServerProcess):
    client = boto3.client("kinesis", region_name="us-east-1", endpoint_url=server.endpoint_url)
    client.create_stream(StreamName="boto3", ShardCount=2)
    client.get_waiter("stream_exists").wait(StreamName="boto3")
    put = client.put_records(
        StreamName="boto3",
        Records=[{"Data": b"%d" % i, "PartitionKey": f"key-{i}"} for i in range(500)],
    )
    assert put["FailedRecordCount"] == 0
    found: set[bytes] = set()
    for page in client.get_paginator("list_shards").paginate(StreamName="boto3"):
        for shard in page["Shards"]:
            iterator = client.get_shard_iterator(
                StreamName="boto3", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
            )["ShardIterator"]
            records = client.get_records(ShardIterator=iterator)["Records"]
            found |= {record["Data"] for record in records}
    assert found == {b"%d" % i for i in range(500)}


def test_boto3_subscribes_to_a_shard(server: ServerProcess):
    client = boto3.client("kinesis", region_name="us-east-1", endpoint_url=server.endpoint_url)
    client.create_stream(StreamName="boto3-push", ShardCount=1)
    arn = client.describe_stream_summary(StreamName="boto3-push")["StreamDescriptionSummary"][
        "StreamARN"
    ]
    consumer = client.register_stream_consumer(StreamARN=arn, ConsumerName="boto3")["Consumer"]
    wait_until(
        lambda: (
            client.describe_stream_consumer(ConsumerARN=consumer["ConsumerARN"])[
                "ConsumerDescription"
            ]["ConsumerStatus"]
            == "ACTIVE"
        )
    )
    events = client.subscribe_to_shard(
        ConsumerARN=consumer["ConsumerARN"],
        ShardId="shardId-000000000000",
        StartingPosition={"Type": "LATEST"},
    )["EventStream"]
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        for event in events:
            seen.extend(record["Data"] for record in event["SubscribeToShardEvent"]["Records"])
            if len(seen) >= 3:
                break
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    for i in range(3):
        client.put_record(StreamName="boto3-push", Data=b"%d" % i, PartitionKey="k")
    assert done.wait(20), seen
    thread.join()
    events.close()
    assert seen == [b"0", b"1", b"2"]
