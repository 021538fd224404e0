"""Our own producer and consumer group on a real server, over sockets."""

from __future__ import annotations

import threading
from typing import Any

import boto3
import pytest

from headrace.client import ConsumerGroup, GroupError, Producer
from headrace.client.access import AwsAccess
from headrace.client.wire import JSON, ServiceError, Target, Wire, WireError
from tests.support.server import ServerProcess, wait_until

COUNT = 3000


@pytest.fixture
def where(server: ServerProcess) -> dict[str, Any]:
    session = boto3.Session(aws_access_key_id="test", aws_secret_access_key="test")
    return {"session": session, "region": "us-east-1", "endpoint_url": server.endpoint_url}


@pytest.fixture
def stream(server: ServerProcess, request: pytest.FixtureRequest) -> str:
    name = request.node.name.replace("[", "-").replace("]", "")
    kinesis = server.client("kinesis")
    kinesis.create_stream(StreamName=name, ShardCount=2)
    kinesis.get_waiter("stream_exists").wait(StreamName=name)
    return name


def numbers_of(group: ConsumerGroup, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        batch = group.next_batch(30)
        assert batch is not None, f"only {len(found)} of {count} records came"
        found += [int(record.data) for record in batch]
        group.finish(batch)
    return found


@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("fan_out", [False, True])
def test_what_is_put_is_read_over_a_split(
    server: ServerProcess, where: dict[str, Any], stream: str, aggregate: bool, fan_out: bool
):
    kinesis = server.client("kinesis")
    with (
        Producer(stream, aggregate=aggregate, **where) as producer,
        ConsumerGroup(stream, stream, fan_out=fan_out, **where) as group,
    ):
        for i in range(COUNT):
            producer.put(b"%d" % i, f"key-{i % 100}")
        producer.flush(30)
        kinesis.split_shard(
            StreamName=stream, ShardToSplit="shardId-000000000000", NewStartingHashKey="12345"
        )
        wait_until(
            lambda: kinesis.describe_stream_summary(StreamName=stream)["StreamDescriptionSummary"]["StreamStatus"]
            == "ACTIVE"
        )  # fmt: skip
        for i in range(COUNT, 2 * COUNT):
            producer.put(b"%d" % i, f"key-{i % 100}")
        producer.flush(30)
        assert sorted(set(numbers_of(group, 2 * COUNT))) == list(range(2 * COUNT))


@pytest.mark.parametrize("fan_out", [False, True])
def test_a_stream_made_anew_under_a_running_group_loses_nothing_silently(
    server: ServerProcess, where: dict[str, Any], stream: str, fan_out: bool
):
    kinesis = server.client("kinesis")

    def put(first: int) -> None:
        with Producer(stream, **where) as producer:
            for i in range(first, first + COUNT):
                producer.put(b"%d" % i, f"key-{i % 100}")

    put(0)
    with ConsumerGroup(stream, stream, fan_out=fan_out, **where) as group:
        assert sorted(numbers_of(group, COUNT)) == list(range(COUNT))
        kinesis.delete_stream(StreamName=stream, EnforceConsumerDeletion=True)
        kinesis.get_waiter("stream_not_exists").wait(
            StreamName=stream, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        kinesis.create_stream(StreamName=stream, ShardCount=2)
        kinesis.get_waiter("stream_exists").wait(StreamName=stream)
        put(COUNT)
        try:
            assert sorted(numbers_of(group, COUNT)) == list(range(COUNT, 2 * COUNT))
        except GroupError as error:
            assert "made anew" in str(error)  # noqa: PT017 - either of them is right


def test_records_without_a_key_and_of_any_text(where: dict[str, Any], stream: str):
    with Producer(stream, **where) as producer:
        producer.put(b"auto")
        producer.put(b"\x00\xff", 'Straße "quoted" \u20ac \U0001f600')
    with ConsumerGroup(stream, stream, **where) as group:
        keys: dict[bytes, str] = {}
        while len(keys) < 2:
            batch = group.next_batch(30)
            assert batch is not None
            keys |= {record.data: record.key for record in batch}
            group.finish(batch)
    assert keys[b"\x00\xff"] == 'Straße "quoted" \u20ac \U0001f600'


def test_a_missing_stream_is_a_clear_error(where: dict[str, Any]):
    producer = Producer("nowhere", **where)
    error = producer.put(b"a", "k").exception(30)
    assert error is not None
    assert error.code == "ResourceNotFoundException"
    assert producer.put(b"a", "k", on_done=lambda _: None).exception(30) is not None


def test_producers_on_many_threads(where: dict[str, Any], stream: str):
    with Producer(stream, aggregate=True, **where) as producer:
        threads = [
            threading.Thread(
                target=lambda: [producer.put(b"%d" % i, f"k{i % 7}") for i in range(COUNT)]
            )
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush(30)
        assert producer.metrics().acknowledged == 3 * COUNT


# The wire.


def test_a_signature_is_what_aws_asks_for(tmp_path_factory: pytest.TempPathFactory):
    from headrace.client.pages import keys_of

    with ServerProcess(tmp_path_factory.mktemp("auth"), "--auth") as server:
        keys = keys_of(server.data_dir)
        assert keys is not None
        for secret, expected in ((keys.secret, None), ("wrong", ServiceError)):
            session = boto3.Session(aws_access_key_id=keys.access_key, aws_secret_access_key=secret)
            access = AwsAccess(
                session=session, region="us-east-1", endpoint_url=server.endpoint_url
            )
            wire = Wire(access, Target.kinesis(access))
            if expected is None:
                assert b"StreamNames" in wire.call("ListStreams", b"{}", JSON)
            else:
                with pytest.raises(expected):
                    wire.call("ListStreams", b"{}", JSON)


def test_a_kept_connection_that_the_server_closed_is_opened_again(
    where: dict[str, Any], tmp_path: Any
):
    with ServerProcess(tmp_path / "data") as server:
        access = AwsAccess(**{**where, "endpoint_url": server.endpoint_url})
        wire = Wire(access, Target.kinesis(access))
        wire.call("ListStreams", b"{}")
        server.kill9()
        with pytest.raises(WireError):
            wire.call("ListStreams", b"{}")
        server.start()
        assert wire.call("ListStreams", b"{}")
        server.kill9()
        server.start()
        assert wire.call("ListStreams", b"{}")
