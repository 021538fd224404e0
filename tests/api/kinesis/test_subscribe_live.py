"""SubscribeToShard over real sockets: boto3 on HTTP/1.1, h2 on HTTP/2, and clients that go away."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cbor2
import h2.config
import h2.connection
import h2.events
import pytest
from botocore.eventstream import EventStreamBuffer
from botocore.exceptions import ClientError, EventStreamError

from headrace.aws.protocols.codec_json import CBOR_1_1, decode_body
from tests.api.kinesis.live import LiveCloud
from tests.api.kinesis.streams import arn_of
from tests.support.server import wait_until

ARN = arn_of("flights")
SHARD = "shardId-000000000000"
TARGET = "Kinesis_20131202.SubscribeToShard"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCloud]:
    with LiveCloud(tmp_path_factory.mktemp("live")) as running:
        yield running


@pytest.fixture
def kinesis(live: LiveCloud) -> Iterator[Any]:
    client = live.client()
    client.create_stream(StreamName="flights", ShardCount=1)
    yield client
    client.delete_stream(StreamName="flights", EnforceConsumerDeletion=True)
    client.close()
    subscriptions = live.cloud.kinesis.subscriptions
    wait_until(lambda: subscriptions.count() == 0, what="the end of every subscription")


def register(kinesis: Any, name: str = "radar") -> str:
    answer = kinesis.register_stream_consumer(StreamARN=ARN, ConsumerName=name)
    return str(answer["Consumer"]["ConsumerARN"])


def subscribe(kinesis: Any, arn: str, shard: str = SHARD, **start: Any) -> Any:
    return kinesis.subscribe_to_shard(
        ConsumerARN=arn, ShardId=shard, StartingPosition=start or {"Type": "TRIM_HORIZON"}
    )["EventStream"]


def put(kinesis: Any, *texts: str) -> None:
    for text in texts:
        kinesis.put_record(StreamName="flights", Data=text.encode(), PartitionKey=text)


def read(stream: Any, count: int) -> list[str]:
    """Return the texts of the next `count` records."""
    found: list[str] = []
    for message in stream:
        found += [r["Data"].decode() for r in message["SubscribeToShardEvent"]["Records"]]
        if len(found) >= count:
            break
    return found


def read_to_the_end(stream: Any) -> tuple[list[str], list[str]]:
    """Return (the texts of all records, the child shards of the last event)."""
    texts: list[str] = []
    children: list[str] = []
    for message in stream:
        event = message["SubscribeToShardEvent"]
        texts += [record["Data"].decode() for record in event["Records"]]
        children = [child["ShardId"] for child in event.get("ChildShards", [])]
    return texts, children


def request(arn: str) -> dict[str, Any]:
    return {
        "ConsumerARN": arn,
        "ShardId": SHARD,
        "StartingPosition": {"Type": "TRIM_HORIZON"},
    }


def test_boto3_is_pushed_what_is_put(kinesis: Any):
    put(kinesis, "before")
    stream = subscribe(kinesis, register(kinesis))
    assert read(stream, 1) == ["before"]
    put(kinesis, "a", "b")
    assert read(stream, 2) == ["a", "b"]
    stream.close()


def test_each_put_is_pushed_at_once(live: LiveCloud, kinesis: Any):
    """Not with a later put, nor with the heartbeat: each next put waits until the one before was seen."""
    stream = subscribe(kinesis, register(kinesis), Type="LATEST")
    messages = iter(stream)
    next(messages)
    heartbeats = 0
    for number in range(50):
        put(kinesis, f"r{number}")
        while not (records := next(messages)["SubscribeToShardEvent"]["Records"]):
            heartbeats += 1
        assert [record["Data"] for record in records] == [f"r{number}".encode()]
    # One comes after five idle seconds; a push that waited for it would make fifty.
    assert heartbeats < 25
    stream.close()


def test_a_split_is_followed_to_its_children(kinesis: Any):
    arn = register(kinesis)
    put(kinesis, "a", "b")
    stream = subscribe(kinesis, arn)
    assert read(stream, 2) == ["a", "b"]
    kinesis.split_shard(StreamName="flights", ShardToSplit=SHARD, NewStartingHashKey=str(1 << 127))
    texts, children = read_to_the_end(stream)
    assert (texts, children) == ([], ["shardId-000000000001", "shardId-000000000002"])
    names = [f"r{number}" for number in range(20)]
    put(kinesis, *names)
    found: list[str] = []
    streams = [subscribe(kinesis, arn, child) for child in children]
    kinesis.merge_shards(
        StreamName="flights", ShardToMerge=children[0], AdjacentShardToMerge=children[1]
    )
    for child in streams:
        texts, merged = read_to_the_end(child)
        found += texts
        assert merged == ["shardId-000000000003"]
    assert sorted(found) == sorted(names)


def test_a_second_subscription_is_refused_while_the_first_is_young(kinesis: Any):
    arn = register(kinesis)
    stream = subscribe(kinesis, arn)
    with pytest.raises(ClientError, match="Another active subscription exists"):
        subscribe(kinesis, arn)
    stream.close()


def test_a_client_that_goes_away_leaves_its_place(live: LiveCloud, kinesis: Any):
    arn = register(kinesis)
    subscriptions = live.cloud.kinesis.subscriptions
    for _ in range(3):
        stream = subscribe(kinesis, arn)
        next(iter(stream))
        assert subscriptions.count() == 1
        stream.close()
        wait_until(lambda: subscriptions.count() == 0, what="the freed subscription")


def test_clients_that_go_before_the_answer_leave_their_places(live: LiveCloud, kinesis: Any):
    subscriptions = live.cloud.kinesis.subscriptions
    for number in range(20):
        body = json.dumps(request(register(kinesis, f"c{number}"))).encode()
        head = (
            f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: {TARGET}\r\n"
            "Content-Type: application/x-amz-json-1.1\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        client = socket.create_connection(("127.0.0.1", live.port), timeout=10)
        client.sendall(head.encode() + body)
        # Closing resets the connection: some of them before the subscription is there, some after.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    opened = len(kinesis.list_stream_consumers(StreamARN=ARN)["Consumers"])
    assert opened == 20
    wait_until(lambda: subscriptions.count() == 0, what="the freed subscriptions")


def test_deregistering_ends_the_stream_with_an_error(kinesis: Any):
    arn = register(kinesis)
    stream = subscribe(kinesis, arn)
    messages = iter(stream)
    next(messages)
    kinesis.deregister_stream_consumer(ConsumerARN=arn)
    with pytest.raises(EventStreamError, match="ResourceNotFoundException"):
        next(messages)


def test_forty_subscriptions_at_once(kinesis: Any):
    kinesis.update_shard_count(
        StreamName="flights", TargetShardCount=2, ScalingType="UNIFORM_SCALING"
    )
    shards = ["shardId-000000000001", "shardId-000000000002"]
    arns = [register(kinesis, f"c{number}") for number in range(20)]
    streams = {(arn, shard): subscribe(kinesis, arn, shard) for arn in arns for shard in shards}
    records = [{"Data": b"%d" % n, "PartitionKey": str(n)} for n in range(100)]
    placed = kinesis.put_records(StreamName="flights", Records=records)["Records"]
    for (_, shard), stream in streams.items():
        wanted = [str(n) for n, where in enumerate(placed) if where["ShardId"] == shard]
        assert read(stream, len(wanted)) == wanted
        stream.close()


def test_a_reader_that_does_not_read_holds_nobody_up(live: LiveCloud, kinesis: Any):
    slow = subscribe(kinesis, register(kinesis, "slow"))
    quick = subscribe(kinesis, register(kinesis, "quick"))
    block = b"x" * 1024 * 1024
    for number in range(30):
        kinesis.put_record(StreamName="flights", Data=block, PartitionKey=str(number))
    assert len(read(quick, 30)) == 30
    assert len(read(slow, 30)) == 30
    slow.close()
    quick.close()


def test_cbor_over_http_1(live: LiveCloud, kinesis: Any):
    put(kinesis, "a")
    arn = register(kinesis)
    body = cbor2.dumps(request(arn))
    head = (
        f"POST / HTTP/1.1\r\nHost: localhost\r\nX-Amz-Target: {TARGET}\r\n"
        f"Content-Type: {CBOR_1_1}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as client:
        client.sendall(head.encode() + body)
        received = b""
        while b"PartitionKey" not in received:
            received += client.recv(65536)
    headers, _, chunks = received.partition(b"\r\n\r\n")
    assert b"Content-Type: application/vnd.amazon.eventstream" in headers
    assert b"Transfer-Encoding: chunked" in headers
    size, _, data = chunks.partition(b"\r\n")
    initial, event = messages_of(data[: int(size, 16)])
    assert (initial.payload, initial.headers[":content-type"]) == (b"\xa0", "application/cbor")
    payload = decode_body(event.payload, CBOR_1_1)
    assert payload["Records"][0]["Data"] == b"a"


def messages_of(data: bytes) -> list[Any]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return list(buffer)


def test_http_2(live: LiveCloud, kinesis: Any):
    put(kinesis, "a")
    body = json.dumps(request(register(kinesis))).encode()
    connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    connection.initiate_connection()
    headers = [
        (":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "localhost"),
        ("x-amz-target", TARGET), ("content-type", "application/x-amz-json-1.1"),
    ]  # fmt: skip
    connection.send_headers(1, headers)
    connection.send_data(1, body, end_stream=True)
    received = b""
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as client:
        while b"PartitionKey" not in received:
            client.sendall(connection.data_to_send())
            for event in connection.receive_data(client.recv(65536)):
                if isinstance(event, h2.events.DataReceived):
                    received += event.data
    initial, event = messages_of(received)
    assert initial.headers[":event-type"] == "initial-response"
    assert json.loads(event.payload)["Records"][0]["Data"] == "YQ=="


def test_a_stopped_cloud_ends_its_streams(tmp_path: Path):
    with LiveCloud(tmp_path / "data") as live:
        client = live.client(read_timeout=10)
        client.create_stream(StreamName="flights", ShardCount=1)
        stream = subscribe(client, register(client))
        messages = iter(stream)
        next(messages)
    with pytest.raises(Exception, match=r"Connection broken|Response ended|reset|closed"):
        next(messages)
    stream.close()
    client.close()
