"""What consumers, policies and settings were acknowledged is there after kill -9, and subscriptions begin anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tests.support.server import ServerProcess

SHARD = "shardId-000000000000"


def test_acknowledged_settings_outlast_kill_9(tmp_path: Path):
    with ServerProcess(tmp_path / "data") as server:
        kinesis = server.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        summary = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"]
        stream = summary["StreamARN"]
        arns = [
            kinesis.register_stream_consumer(StreamARN=stream, ConsumerName=name, Tags={"n": name})[
                "Consumer"
            ]["ConsumerARN"]
            for name in ("kept", "gone")
        ]
        statement = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": "kinesis:SubscribeToShard",
            "Resource": arns[0],
        }
        policy = json.dumps({"Statement": [statement]})
        kinesis.put_resource_policy(ResourceARN=arns[0], Policy=policy)
        kinesis.update_account_settings(MinimumThroughputBillingCommitment={"Status": "ENABLED"})
        kinesis.update_max_record_size(StreamARN=stream, MaxRecordSizeInKiB=2048)
        kinesis.put_record(StreamName="flights", Data=b"before", PartitionKey="k")
        start = {"ConsumerARN": arns[0], "ShardId": SHARD}
        before = kinesis.subscribe_to_shard(**start, StartingPosition={"Type": "TRIM_HORIZON"})
        (record,) = next(iter(before["EventStream"]))["SubscribeToShardEvent"]["Records"]
        kinesis.deregister_stream_consumer(ConsumerARN=arns[1])
        server.kill9()
        before["EventStream"].close()

        server.start()
        kinesis = server.client("kinesis")
        listed = kinesis.list_stream_consumers(StreamARN=stream)["Consumers"]
        assert [consumer["ConsumerARN"] for consumer in listed] == arns[:1]
        tags = kinesis.list_tags_for_resource(ResourceARN=arns[0])["Tags"]
        assert tags == [{"Key": "n", "Value": "kept"}]
        assert kinesis.get_resource_policy(ResourceARN=arns[0])["Policy"] == policy
        with pytest.raises(ClientError, match="not found"):
            kinesis.describe_stream_consumer(ConsumerARN=arns[1])
        settings = kinesis.describe_account_settings()["MinimumThroughputBillingCommitment"]
        assert settings["Status"] == "ENABLED"
        kinesis.put_record(StreamName="flights", Data=b"x" * 2048 * 1024, PartitionKey="k")
        # At once, though the one before is younger than five seconds: it ended with the process.
        position = {"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": record["SequenceNumber"]}
        after = kinesis.subscribe_to_shard(**start, StartingPosition=position)["EventStream"]
        (record,) = next(iter(after))["SubscribeToShardEvent"]["Records"]
        assert len(record["Data"]) == 2048 * 1024
        after.close()
