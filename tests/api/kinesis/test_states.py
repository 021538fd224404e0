"""Streams that take their time: CREATING, UPDATING and DELETING, and what they refuse meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.services.kinesis.metrics import MinuteMetrics
from headrace.services.kinesis.state import Stream
from headrace.services.kinesis.store import StreamStore
from tests.api.kinesis.conftest import StillClock
from tests.api.kinesis.streams import Streams, arn_of, failure
from tests.support.cloud import ACCOUNT, InProcessCloud
from tests.support.server import ServerProcess, wait_until

ARN = arn_of("flights")
KEY = {"EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}
POLICY = (
    '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "kinesis:PutRecord",'
    f' "Resource": "{ARN}"}}}}'
)
# Every operation that needs an ACTIVE stream, and what it needs besides.
CHANGES: dict[str, dict[str, Any]] = {
    "add_tags_to_stream": {"StreamARN": ARN, "Tags": {"a": "1"}},
    "decrease_stream_retention_period": {"StreamARN": ARN, "RetentionPeriodHours": 24},
    "disable_enhanced_monitoring": {"StreamARN": ARN, "ShardLevelMetrics": ["ALL"]},
    "enable_enhanced_monitoring": {"StreamARN": ARN, "ShardLevelMetrics": ["ALL"]},
    "increase_stream_retention_period": {"StreamARN": ARN, "RetentionPeriodHours": 25},
    "merge_shards": {"StreamARN": ARN, "ShardToMerge": "0", "AdjacentShardToMerge": "1"},
    "put_resource_policy": {"ResourceARN": ARN, "Policy": POLICY},
    "register_stream_consumer": {"StreamARN": ARN, "ConsumerName": "c"},
    "remove_tags_from_stream": {"StreamARN": ARN, "TagKeys": ["a"]},
    "split_shard": {"StreamARN": ARN, "ShardToSplit": "0", "NewStartingHashKey": str(1 << 120)},
    "start_stream_encryption": {"StreamARN": ARN, **KEY},
    "stop_stream_encryption": {"StreamARN": ARN, **KEY},
    "tag_resource": {"ResourceARN": ARN, "Tags": {"a": "1"}},
    "untag_resource": {"ResourceARN": ARN, "TagKeys": ["a"]},
    "update_max_record_size": {"StreamARN": ARN, "MaxRecordSizeInKiB": 2048},
    "update_shard_count": {
        "StreamARN": ARN, "TargetShardCount": 3, "ScalingType": "UNIFORM_SCALING",
    },
    "update_stream_mode": {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "ON_DEMAND"}},
    "update_stream_warm_throughput": {"StreamARN": ARN, "WarmThroughputMiBps": 5},
}  # fmt: skip
UPDATING = (
    "split_shard",
    "merge_shards",
    "update_shard_count",
    "update_stream_mode",
    "update_max_record_size",
    "start_stream_encryption",
    "stop_stream_encryption",
    "increase_stream_retention_period",
)


@pytest.fixture
def cloud(data_dir: Path, clock: StillClock) -> Iterator[InProcessCloud]:
    with InProcessCloud(data_dir, clock=clock, state_delay_ms=1_000) as running:
        yield running


def status(kinesis: Any, name: str = "flights") -> str:
    summary = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    return str(summary["StreamStatus"])


def settled(streams: Streams) -> None:
    streams.create(shards=2)
    streams.clock.advance(1)


def test_a_new_stream_is_creating_for_a_while(streams: Streams, kinesis: Any):
    streams.create(shards=2)
    description = kinesis.describe_stream(StreamName="flights")["StreamDescription"]
    assert (description["StreamStatus"], description["Shards"]) == ("CREATING", [])
    listed = kinesis.list_streams()["StreamSummaries"]
    assert [summary["StreamStatus"] for summary in listed] == ["CREATING"]
    assert failure(kinesis.list_shards, StreamName="flights").code == "ResourceInUseException"
    for call, params in (
        (kinesis.put_record, {"Data": b"a", "PartitionKey": "k"}),
        (kinesis.put_records, {"Records": [{"Data": b"a", "PartitionKey": "k"}]}),
        (kinesis.get_shard_iterator, {"ShardId": "0", "ShardIteratorType": "LATEST"}),
    ):
        error = failure(call, StreamName="flights", **params)
        assert error.code == "ResourceNotFoundException"
    streams.clock.advance(1)
    assert status(kinesis) == "ACTIVE"
    streams.put("a")
    assert len(streams.shards()) == 2


@pytest.mark.parametrize("operation", sorted(CHANGES))
def test_what_needs_an_active_stream(streams: Streams, kinesis: Any, operation: str):
    streams.create(shards=2)
    error = failure(getattr(kinesis, operation), **CHANGES[operation])
    assert error.code == "ResourceInUseException"
    assert error.message == (
        f"Stream flights under account {ACCOUNT} not ACTIVE, instead in state CREATING"
    )


@pytest.mark.parametrize("operation", UPDATING)
def test_a_change_takes_a_while_and_data_flows_on(streams: Streams, kinesis: Any, operation: str):
    settled(streams)
    getattr(kinesis, operation)(**CHANGES[operation])
    assert status(kinesis) == "UPDATING"
    streams.put("a", "b")
    error = failure(kinesis.add_tags_to_stream, StreamName="flights", Tags={"a": "1"})
    assert error.message.endswith("not ACTIVE, instead in state UPDATING")
    streams.clock.advance(1)
    assert status(kinesis) == "ACTIVE"
    kinesis.add_tags_to_stream(StreamName="flights", Tags={"a": "1"})


def test_a_deleted_stream_is_deleting_for_a_while(streams: Streams, kinesis: Any):
    settled(streams)
    streams.put("a")
    kinesis.delete_stream(StreamName="flights")
    assert status(kinesis) == "DELETING"
    assert failure(kinesis.delete_stream, StreamName="flights").code == "ResourceInUseException"
    error = failure(kinesis.create_stream, StreamName="flights", ShardCount=1)
    assert error.code == "ResourceInUseException"
    streams.clock.advance(1)
    assert kinesis.list_streams()["StreamNames"] == []
    assert kinesis.describe_limits()["OpenShardCount"] == 0
    streams.create()


def test_a_stream_that_is_being_made_is_not_deleted(streams: Streams, kinesis: Any):
    streams.create()
    assert failure(kinesis.delete_stream, StreamName="flights").code == "ResourceInUseException"


def test_five_streams_are_made_at_once(streams: Streams, kinesis: Any):
    for number in range(5):
        streams.create(f"s{number}")
    error = failure(kinesis.create_stream, StreamName="s5", ShardCount=1)
    assert error.code == "LimitExceededException"
    streams.clock.advance(1)
    streams.create("s5")


def test_states_outlast_a_restart(streams: Streams, kinesis: Any, cloud: InProcessCloud):
    for name in ("deleted", "made"):
        streams.create(name)
    streams.clock.advance(1)
    kinesis.delete_stream(StreamName="deleted")
    streams.create("late")
    cloud.stop()
    with InProcessCloud(cloud.cloud.config.data_dir, clock=streams.clock) as again:
        client = again.client("kinesis")
        found = {name: status(client, name) for name in client.list_streams()["StreamNames"]}
        assert found == {"deleted": "DELETING", "late": "CREATING", "made": "ACTIVE"}
        streams.clock.advance(1)
        assert client.list_streams()["StreamNames"] == ["late", "made"]
        assert status(client, "late") == "ACTIVE"


def test_the_command_takes_the_delay(tmp_path: Path):
    with ServerProcess(tmp_path / "data", "--state-delay", "2") as server:
        kinesis = server.client("kinesis")
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        assert status(kinesis) == "CREATING"
        kinesis.get_waiter("stream_exists").wait(
            StreamName="flights", WaiterConfig={"Delay": 1, "MaxAttempts": 20}
        )
        kinesis.delete_stream(StreamName="flights")
        wait_until(lambda: not kinesis.list_streams()["StreamNames"], what="the deletion")


def test_a_worker_ends_its_step_before_the_logs_close(
    data_dir: Path, clock: StillClock, monkeypatch: pytest.MonkeyPatch
):
    """It could open the log of a new shard when all others were closed and their ends noted."""
    is_in_step, may_end, order = threading.Event(), threading.Event(), list[str]()
    close = StreamStore.close

    def step(_worker: MinuteMetrics) -> float:
        is_in_step.set()
        assert may_end.wait(30)
        order.append("stepped")
        return 3600.0

    def closing(store: StreamStore, streams: Iterable[Stream]) -> None:
        order.append("closed")
        close(store, streams)

    monkeypatch.setattr(MinuteMetrics, "step", step)
    monkeypatch.setattr(StreamStore, "close", closing)
    cloud = InProcessCloud(data_dir, clock=clock)
    assert is_in_step.wait(30)
    (handle,) = (
        each for each in cloud.cloud.supervisor._handles if each.name == MinuteMetrics.name
    )
    stopping = threading.Thread(target=cloud.stop)
    stopping.start()
    wait_until(lambda: handle.is_stopping)
    may_end.set()
    stopping.join(30)
    assert order == ["stepped", "closed"]
