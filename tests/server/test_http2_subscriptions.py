"""Several subscriptions on one HTTP/2 session: each whole and in order, whatever becomes of the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from tests.api.kinesis.live import LiveCloud
from tests.support.http_server import Client
from tests.support.server import wait_until

RECORDS = 1_500
FIELDS = (
    ("x-amz-target", "Kinesis_20131202.SubscribeToShard"),
    ("content-type", "application/x-amz-json-1.1"),
)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    with LiveCloud(tmp_path_factory.mktemp("live") / "data") as running:
        kinesis = running.client()
        kinesis.create_stream(StreamName="flights", ShardCount=1)
        for begin in range(0, RECORDS, 500):
            numbers = range(begin, begin + 500)
            batch = [{"Data": b"%d" % n + b" " * 800, "PartitionKey": "k"} for n in numbers]
            kinesis.put_records(StreamName="flights", Records=batch)
        yield running


@pytest.fixture
def arns(live: LiveCloud) -> Iterator[list[str]]:
    kinesis: Any = live.client()
    arn = kinesis.describe_stream_summary(StreamName="flights")["StreamDescriptionSummary"][
        "StreamARN"
    ]
    made = [
        kinesis.register_stream_consumer(StreamARN=arn, ConsumerName=f"c{n}")["Consumer"]
        for n in range(6)
    ]
    yield [consumer["ConsumerARN"] for consumer in made]
    for consumer in made:
        kinesis.deregister_stream_consumer(ConsumerARN=consumer["ConsumerARN"])
    subscriptions = live.cloud.kinesis.subscriptions
    wait_until(lambda: subscriptions.count() == 0, what="the end of every subscription")


def subscribe(client: Client, arn: str) -> int:
    start = {"Type": "TRIM_HORIZON"}
    body = {"ConsumerARN": arn, "ShardId": "shardId-000000000000", "StartingPosition": start}
    return client.ask("/", json.dumps(body).encode(), fields=FIELDS)


def numbers_of(data: bytes | bytearray) -> list[int]:
    """Return the records' numbers in the whole messages that have come."""
    import base64

    buffer = EventStreamBuffer()
    buffer.add_data(bytes(data))
    found: list[int] = []
    for message in buffer:
        if message.headers[":event-type"] == "SubscribeToShardEvent":
            records = json.loads(message.payload)["Records"]
            found += [int(base64.b64decode(record["Data"])) for record in records]
    return found


def read_all(client: Client, streams: list[int]) -> None:
    wanted = RECORDS * 1200  # bytes; about what a subscription's events have
    while any(len(client.bodies.get(stream, b"")) < wanted for stream in streams):
        client.hear()
    for stream in streams:
        while len(found := numbers_of(client.bodies[stream])) < RECORDS:
            client.hear()
        assert found == list(range(RECORDS))


def test_six_on_one_session(live: LiveCloud, arns: list[str]):
    with Client(live.port) as client:
        streams = [subscribe(client, arn) for arn in arns]
        read_all(client, streams)
        assert live.cloud.kinesis.subscriptions.count() == 6


def test_one_that_is_reset_leaves_the_others(live: LiveCloud, arns: list[str]):
    subscriptions = live.cloud.kinesis.subscriptions
    with Client(live.port) as client:
        streams = [subscribe(client, arn) for arn in arns[:4]]
        while len(client.bodies.get(streams[1], b"")) < 100_000:
            client.hear()
        client.h2.reset_stream(streams[1])
        client.flush()
        read_all(client, [streams[0], *streams[2:]])
        wait_until(lambda: subscriptions.count() == 3, what="the freed place")
        read_all(client, [subscribe(client, arns[1])])


def test_a_session_that_is_closed_while_records_are_pushed(live: LiveCloud, arns: list[str]):
    subscriptions = live.cloud.kinesis.subscriptions
    for _ in range(3):
        with Client(live.port) as client:
            streams = [subscribe(client, arn) for arn in arns]
            while any(len(client.bodies.get(stream, b"")) < 50_000 for stream in streams):
                client.hear()
            assert subscriptions.count() == 6
        wait_until(lambda: subscriptions.count() == 0, what="the freed places")


def test_a_client_that_reads_nothing_gets_it_all_when_it_does(live: LiveCloud, arns: list[str]):
    """Its windows are full; others on the session have theirs."""
    with Client(live.port, window_bytes=20_000) as client:
        silent = subscribe(client, arns[0])
        taken = client.h2.acknowledge_received_data

        def unread(size: int, stream: int) -> None:
            if stream == silent:
                client.h2.increment_flow_control_window(size)  # of the connection only
            else:
                taken(size, stream)

        client.h2.acknowledge_received_data = unread  # type: ignore[method-assign, assignment]
        read_all(client, [subscribe(client, arns[1])])
        assert len(client.bodies[silent]) == 20_000
        client.h2.acknowledge_received_data = taken  # type: ignore[method-assign]
        client.h2.increment_flow_control_window(2**30, silent)
        client.flush()
        read_all(client, [silent])
