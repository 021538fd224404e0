"""A disk that is full: an AWS error, and nothing that was acknowledged is lost.

The limit on a file's size stands in for the disk: writes past it fail as they do on a full one, whoever runs the test.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.store.check import check
from tests.support.server import ServerProcess

pytestmark = pytest.mark.crash


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as server:
        server.client("kinesis").create_stream(StreamName="s", ShardCount=1)
        yield server


def let_files_grow_to(server: ServerProcess, size_bytes: int) -> None:
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))


def put(client: Any, texts: list[str]) -> Any:
    records = [{"Data": text.encode(), "PartitionKey": "k"} for text in texts]
    return client.put_records(StreamName="s", Records=records)


def stored(client: Any) -> list[str]:
    (shard,) = client.list_shards(StreamName="s")["Shards"]
    iterator = client.get_shard_iterator(
        StreamName="s", ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
    )["ShardIterator"]
    return [r["Data"].decode() for r in client.get_records(ShardIterator=iterator)["Records"]]


def test_records_are_refused_one_by_one_and_taken_again_later(server: ServerProcess):
    client = server.client("kinesis")
    assert put(client, ["before"])["FailedRecordCount"] == 0
    (segment,) = server.data_dir.glob("streams/*/*/*.log")
    let_files_grow_to(server, segment.stat().st_size + 100)
    refused = put(client, ["x" * 200, "y" * 200])
    assert refused["FailedRecordCount"] == 2
    assert {r["ErrorCode"] for r in refused["Records"]} == {"InternalFailure"}
    with pytest.raises(ClientError) as caught:
        client.put_record(StreamName="s", Data=b"z" * 200, PartitionKey="k")
    assert caught.value.response["Error"]["Code"] == "InternalFailure"
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert stored(client) == ["before"]
    let_files_grow_to(server, resource.RLIM_INFINITY)
    assert put(client, ["after"])["FailedRecordCount"] == 0
    server.kill9()
    server.start()
    assert stored(server.client("kinesis")) == ["before", "after"]
    server.stop()
    assert list(check(server.data_dir)) == []


def test_a_stream_that_cannot_be_stored_is_not_there(server: ServerProcess):
    client = server.client("kinesis")
    let_files_grow_to(server, 10)
    for refused in (
        lambda: client.create_stream(StreamName="t", ShardCount=2),
        lambda: client.split_shard(
            StreamName="s", ShardToSplit="shardId-000000000000", NewStartingHashKey=str(1 << 127)
        ),
        lambda: client.increase_stream_retention_period(StreamName="s", RetentionPeriodHours=48),
        lambda: client.delete_stream(StreamName="s"),
    ):
        with pytest.raises(ClientError) as caught:
            refused()
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
    let_files_grow_to(server, resource.RLIM_INFINITY)
    for _ in range(2):
        client = server.client("kinesis")
        assert client.list_streams()["StreamNames"] == ["s"]
        summary = client.describe_stream_summary(StreamName="s")["StreamDescriptionSummary"]
        assert (summary["OpenShardCount"], summary["RetentionPeriodHours"]) == (1, 24)
        assert summary["StreamStatus"] == "ACTIVE"
        server.kill9()
        server.start()
    put(server.client("kinesis"), ["later"])
    assert stored(server.client("kinesis")) == ["later"]


def test_a_stream_of_more_shards_than_files_may_be_open_is_refused_and_leaves_nothing(
    server: ServerProcess,
):
    client = server.client("kinesis")
    folders = len(list(server.data_dir.glob("streams/*")))
    opened = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (opened + 50, opened + 50))
    with pytest.raises(ClientError, match="open no more files") as caught:
        client.create_stream(StreamName="t", ShardCount=200)
    assert caught.value.response["Error"]["Code"] == "LimitExceededException"
    assert client.list_streams()["StreamNames"] == ["s"]
    assert len(list(server.data_dir.glob("streams/*"))) == folders
    assert put(client, ["still"])["FailedRecordCount"] == 0
