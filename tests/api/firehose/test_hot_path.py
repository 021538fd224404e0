"""Puts of the usual form, which take a short cut, get the answers of their actions and store the same records."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aws.calls.http import HttpRequest
from headrace.services.firehose.fast_path import JSON
from tests.api.kinesis.conftest import StillClock
from tests.support.cloud import InProcessCloud

NAME = "flights"
S3 = {"RoleARN": "arn:aws:iam::000000000000:role/r", "BucketARN": "arn:aws:s3:::lake"}


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[InProcessCloud]]:
    """Two equal clouds; on the second every request goes to its action."""
    clouds: list[InProcessCloud] = []
    for place in ("short", "long"):
        cloud = InProcessCloud(tmp_path_factory.mktemp(place), clock=StillClock())
        client = cloud.client("firehose")
        client.create_delivery_stream(
            DeliveryStreamName=NAME, ExtendedS3DestinationConfiguration=S3
        )
        clouds.append(cloud)
    object.__setattr__(clouds[1].cloud.gateway.owned["firehose"], "raw", None)
    yield clouds
    for cloud in clouds:
        cloud.stop()


def ask(cloud: InProcessCloud, operation: str, body: bytes) -> tuple[int, Any]:
    answer = cloud.json_request(f"Firehose_20150804.{operation}", body, content_type=JSON)
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body)


def stored(cloud: InProcessCloud) -> list[bytes]:
    """Return the data of all records in the journal."""
    running = next(iter(cloud.cloud.firehose._running.values()))
    found: list[bytes] = []
    position = "TRIM_HORIZON"
    while records := running.source.read("journal", position, 10_000, 1 << 22).records:
        found += [record.data for record in records]
        position = records[-1].sequence_number
    return found


texts = st.text(max_size=20)
odd = st.one_of(st.none(), st.integers(-2, 3), st.booleans(), texts, st.lists(texts, max_size=2))
good = st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode())
data = st.one_of(
    good, good, st.text("AQgw+/= \n-_é", max_size=8), good.map(lambda text: text[:-1]), odd
)
record = st.one_of(
    good.map(lambda text: {"Data": text}),
    data.map(lambda text: {"Data": text}),
    st.dictionaries(st.sampled_from(["Data", "data", "Unknown"]), data, max_size=2),
    odd,
)
name = st.one_of(st.just(NAME), st.just(NAME), st.just("none"), odd)


@settings(max_examples=120)
@given(st.lists(record, max_size=4), name, st.booleans())
def test_a_batch_is_answered_as_by_its_action(
    twins: list[InProcessCloud], records: list[Any], stream: Any, more: bool
):
    request = {"DeliveryStreamName": stream, "Records": records, **({"X": 1} if more else {})}
    answers = [ask(cloud, "PutRecordBatch", json.dumps(request).encode()) for cloud in twins]
    assert answers[0] == answers[1]


@settings(max_examples=120)
@given(record, name)
def test_a_record_is_answered_as_by_its_action(twins: list[InProcessCloud], one: Any, stream: Any):
    request = {"DeliveryStreamName": stream, "Record": one}
    answers = [ask(cloud, "PutRecord", json.dumps(request).encode()) for cloud in twins]
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("sizes", "status"),
    [
        ([1] * 500, 200),
        ([1] * 501, 400),
        ([1024_000] * 4, 200),
        ([1024_001], 400),
        ([1_000_000] * 4 + [194_304], 200),
        ([1_000_000] * 4 + [194_305], 400),
    ],
)
def test_limits_are_those_of_the_action(twins: list[InProcessCloud], sizes: list[int], status: int):
    records = [{"Data": base64.b64encode(b"x" * size).decode()} for size in sizes]
    body = json.dumps({"DeliveryStreamName": NAME, "Records": records}).encode()
    answers = [ask(cloud, "PutRecordBatch", body) for cloud in twins]
    assert answers[0] == answers[1]
    assert answers[0][0] == status


def test_both_ways_have_stored_the_same_records(twins: list[InProcessCloud]):
    """Last in this file: all that the tests above have put, if this process has run them, and a little more."""
    body = json.dumps({"DeliveryStreamName": NAME, "Records": [{"Data": "eA=="}, {"Data": ""}]})
    for cloud in twins:
        assert ask(cloud, "PutRecordBatch", body.encode())[0] == 200
    first, second = map(stored, twins)
    assert first[-2:] == [b"x", b""]
    assert first == second


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_puts_run_on_the_event_loop_unless_they_wait_for_the_disk(
    tmp_path: Path, durability: str
) -> None:
    with InProcessCloud(tmp_path / "data", durability=durability) as cloud:
        for operation, never_waits in (
            ("PutRecord", True),
            ("PutRecordBatch", True),
            ("DescribeDeliveryStream", False),
        ):
            target = {"x-amz-target": f"Firehose_20150804.{operation}"}
            request = HttpRequest("POST", "/", headers=target)
            assert cloud.cloud.gateway.inline.has(request) == (never_waits and durability == "os")


def test_puts_do_not_wait_while_another_stream_is_deleted(twins: list[InProcessCloud]) -> None:
    """Deleting waits for the stream's worker, and holds the lock; the event loop must not wait with it."""
    body = json.dumps({"DeliveryStreamName": NAME, "Records": [{"Data": "eA=="}]}).encode()
    for cloud in twins:
        with ThreadPoolExecutor(1) as pool, cloud.cloud.firehose.lock:
            status, _ = pool.submit(ask, cloud, "PutRecordBatch", body).result(30)
        assert status == 200
