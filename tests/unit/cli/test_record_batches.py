"""Putting records in batches: what is tried again, what is counted, and what is said of the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError

from headrace.cli.record_batches import MOST_TRIES, PutFailed, Putter, batches
from tests.support.clock import FakeClock

THROTTLED = {
    "ErrorCode": "ProvisionedThroughputExceededException",
    "ErrorMessage": "Rate exceeded.",
}


class FakeKinesis:
    """Answers PutRecords as `answer` says: a result for each record, None for one that is taken."""

    def __init__(self, answer: Callable[[list[bytes]], list[dict[str, str] | None]]) -> None:
        self.requests: list[list[bytes]] = []
        self._answer = answer

    def put_records(self, *, StreamName: str, Records: list[dict[str, Any]]) -> dict[str, Any]:
        data = [record["Data"] for record in Records]
        self.requests.append(data)
        results = self._answer(data)
        return {"Records": [result or {"ShardId": "shardId-000000000000"} for result in results]}


def records(*data: bytes) -> list[dict[str, Any]]:
    return [{"Data": one, "PartitionKey": "k"} for one in data]


def putter_of(answer: Callable[[list[bytes]], Any]) -> tuple[Putter, FakeKinesis]:
    kinesis = FakeKinesis(answer)
    return Putter(kinesis, "s", clock=FakeClock()), kinesis


def refused(code: str, message: str, status: int = 400) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "PutRecords")


def test_what_was_throttled_is_tried_again_and_counted_once() -> None:
    throttled = {b"b", b"c"}

    def answer(data: list[bytes]) -> list[Any]:
        answers = [THROTTLED if one in throttled else None for one in data]
        throttled.clear()
        return answers

    putter, kinesis = putter_of(answer)
    assert putter.put(records(b"a", b"b", b"c")) == 3
    assert kinesis.requests == [[b"a", b"b", b"c"], [b"b", b"c"]]
    assert (putter.acknowledged, putter.unknown) == (3, 0)
    assert putter.summary(by_shard=True) == "3 records put into s (shardId-000000000000: 3)"


def test_a_record_that_is_refused_to_the_end_is_named_by_its_number() -> None:
    putter, kinesis = putter_of(lambda data: [THROTTLED if one > b"b" else None for one in data])
    putter.put(records(b"a", b"b"))
    with pytest.raises(PutFailed) as caught:
        putter.put(records(b"a", b"c", b"d"))
    assert str(caught.value) == (
        f"record 4 was refused {MOST_TRIES} times, as 1 other was: "
        "ProvisionedThroughputExceededException: Rate exceeded"
    )
    assert len(kinesis.requests) == 1 + MOST_TRIES
    assert putter.summary() == "3 records put into s"


@pytest.mark.parametrize(
    ("batch", "message", "said"),
    [
        (2, "Value '' at 'records.2.member.partitionKey' failed.", "record 3 was refused"),
        (2, "Stream s not found.", "records 2 to 3 were refused"),
        (1, "Stream s not found.", "record 2 was refused"),
    ],
)
def test_a_refused_request_names_its_records_and_awss_code(
    batch: int, message: str, said: str
) -> None:
    def answer(data: list[bytes]) -> list[Any]:
        if data[0] != b"first":
            raise refused("SomeException", message)
        return [None]

    putter, _ = putter_of(answer)
    putter.put(records(b"first"))
    with pytest.raises(PutFailed) as caught:
        putter.put(records(*[b"x"] * batch))
    assert str(caught.value) == f"{said}: SomeException: {message.removesuffix('.')}"
    assert putter.summary() == "1 record put into s"


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1/"), 0),
        (ConnectionClosedError(endpoint_url="http://127.0.0.1:1/"), 2),
        (refused("InternalFailure", "Internal service failure.", status=500), 2),
    ],
)
def test_what_the_stream_may_have_is_not_counted_and_not_denied(
    error: Exception, unknown: int
) -> None:
    def answer(data: list[bytes]) -> list[Any]:
        if data != [b"first"]:
            raise error
        return [None]

    putter, _ = putter_of(answer)
    putter.put(records(b"first"))
    with pytest.raises(PutFailed):
        putter.put(records(b"a", b"b"))
    more = "; of 2 more, which were on their way, some may be there too" if unknown else ""
    assert putter.summary() == f"1 record put into s{more}"


def test_after_a_failure_nothing_more_is_put() -> None:
    def answer(data: list[bytes]) -> list[Any]:
        raise refused("SomeException", "No.")

    putter, kinesis = putter_of(answer)
    for _ in range(2):
        with pytest.raises(PutFailed):
            putter.put(records(b"a"))
    assert len(kinesis.requests) == 1


def test_stopping_ends_the_tries_and_keeps_the_count() -> None:
    putter, kinesis = putter_of(lambda data: [None, *([THROTTLED] * (len(data) - 1))])
    original = kinesis.put_records

    def put_records(**request: Any) -> Any:
        putter.stop()
        return original(**request)

    kinesis.put_records = put_records
    with pytest.raises(PutFailed, match="record 2 was refused 1 times"):
        putter.put(records(b"a", b"b"))
    assert putter.acknowledged == 1


def test_a_batch_ends_at_awss_limits_or_early() -> None:
    many = records(*[b"x"] * 501)
    assert [len(batch) for batch in batches(many)] == [500, 1]
    large = records(b"x" * 3_000_000, b"x" * 3_000_000, b"x")
    assert [len(batch) for batch in batches(large)] == [1, 2]
    first, second, third = records(b"a", b"b", b"c")
    groups = list(batches([None, first, second, None, None, third]))
    assert [len(batch) for batch in groups] == [2, 1]
