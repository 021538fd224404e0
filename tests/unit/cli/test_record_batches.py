"""Putting records in batches: what is tried again, what is counted, and what is said of the rest."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.cli.put import (
    PRODUCER_OPTIONS,
    NoKey,
    PutFailed,
    Putter,
    batches,
    put_all,
    records_of,
)
from headrace.client import Producer
from headrace.client.wire import NotSent, ServiceError, WireError
from tests.support.fake_stream import FakeStream
from tests.support.server import wait_until

THROTTLED = "ProvisionedThroughputExceededException"
REFUSED = ServiceError("SomeException", "No.", 400)


def records(*data: bytes) -> list[dict[str, Any]]:
    return [{"Data": one, "PartitionKey": "k"} for one in data]


def putter_of(stream: Any, *, by_shard: bool = False, **options: Any) -> Putter:
    settings = {**PRODUCER_OPTIONS, **options}
    producer = Producer("s", streams=stream, make_wire=lambda: stream, **settings)
    return Putter(producer, by_shard=by_shard)


def put(putter: Putter, *data: bytes) -> None:
    putter.put(records(*data))
    putter.finish()


def requests(stream: FakeStream) -> list[list[bytes]]:
    return [[entry["Data"] for entry in request["Records"]] for request in stream.requests]


def test_what_was_throttled_is_tried_again_before_the_next_batch_and_counted_once() -> None:
    stream = FakeStream()
    stream.faults = [[None, THROTTLED, THROTTLED]]
    putter = putter_of(stream, by_shard=True, linger_ms=10_000, max_records=3)
    putter.put(records(b"a", b"b", b"c"))
    putter.put(records(b"d", b"e", b"f"))
    putter.finish()
    assert requests(stream) == [[b"a", b"b", b"c"], [b"b", b"c"], [b"d", b"e", b"f"]]
    assert (putter.acknowledged, putter.unknown) == (6, 0)
    assert putter.summary() == "6 records put into s (shardId-000000000000: 6)"


def test_a_record_that_is_refused_to_the_end_is_named_by_its_number() -> None:
    stream = FakeStream()
    putter = putter_of(stream, give_up_after_s=0.0, linger_ms=10_000, max_records=2)
    put(putter, b"a", b"b")
    stream.faults = [[None, THROTTLED], [THROTTLED]]
    with pytest.raises(PutFailed) as caught:
        put(putter, b"a", b"c")
    assert str(caught.value) == f"record 4 was refused: {THROTTLED}: no"
    assert putter.summary() == "3 records put into s"


def test_tries_are_counted_and_nothing_is_put_after_the_record() -> None:
    stream = FakeStream()
    stream.faults = [[None, THROTTLED, THROTTLED]] + [[THROTTLED] * 2] * 99
    putter = putter_of(stream, give_up_after_s=0.05, linger_ms=10_000, max_records=3)
    with pytest.raises(PutFailed) as caught:
        put(putter, b"a", b"b", b"c")
    tries = len(stream.requests)
    assert (
        str(caught.value) == f"record 2 was refused {tries} times, as 1 other was: {THROTTLED}: no"
    )
    with pytest.raises(PutFailed, match="record 4 was not put any more"):
        put(putter, b"d")
    assert (len(stream.requests), putter.summary()) == (tries, "1 record put into s")


@pytest.mark.parametrize(("batch", "said"), [(2, "records 3 to 4 were"), (1, "record 2 was")])
def test_a_refused_request_names_its_records_and_awss_code(batch: int, said: str) -> None:
    stream = FakeStream()
    putter = putter_of(stream, linger_ms=10_000, max_records=batch)
    put(putter, *[b"first"] * batch)
    stream.faults = [REFUSED] * batch
    with pytest.raises(PutFailed) as caught:
        put(putter, *[b"x"] * batch)
    assert str(caught.value) == f"{said} refused: SomeException: No"


def test_an_invalid_record_is_named_and_later_ones_are_not_put() -> None:
    invalid = ServiceError("ValidationException", "Too large.", 400)
    stream = FakeStream()
    stream.faults = [invalid, [None], invalid]
    putter = putter_of(stream, linger_ms=10_000, max_records=4)
    with pytest.raises(PutFailed) as caught:
        put(putter, b"a", b"b", b"c", b"d")
    assert str(caught.value) == "record 2 was refused: ValidationException: Too large"
    assert (putter.acknowledged, stream.data()) == (1, [b"a"])


@pytest.mark.parametrize("key", ["", "k" * 257, "\udcff"])
def test_what_no_stream_takes_is_refused_with_its_batch(key: str) -> None:
    stream = FakeStream()
    putter = putter_of(stream)
    bad = {"Data": b"x", "PartitionKey": key}
    with pytest.raises(PutFailed, match="record 2 was refused: a partition key"):
        putter.put([*records(b"a"), bad])
    assert (stream.requests, putter.summary()) == ([], "0 records put into s")


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (NotSent("no connection"), 0),
        (WireError("no answer"), 2),
        (ServiceError("InternalFailure", "Internal service failure.", 500), 2),
    ],
)
def test_what_the_stream_may_have_is_not_counted_and_not_denied(
    error: Exception, unknown: int
) -> None:
    stream = FakeStream()
    putter = putter_of(stream, give_up_after_s=0.0, linger_ms=10_000, max_records=2)
    stream.faults = [[None, None], error]
    put(putter, b"first", b"second")
    with pytest.raises(PutFailed):
        put(putter, b"a", b"b")
    more = "; of 2 more, which were on their way, some may be there too" if unknown else ""
    assert putter.summary() == f"2 records put into s{more}"


def test_stopping_ends_the_tries_and_keeps_the_count() -> None:
    stream = FakeStream()
    putter = putter_of(stream, linger_ms=10_000, max_records=2)
    stopping = threading.Thread(target=putter.stop)
    original = stream.call

    def call(*request: Any) -> bytes:
        stream.faults = [[None, THROTTLED]]
        stopping.start()
        # The producer is closed while the request is on its way: what is refused is not put any more.
        wait_until(lambda: putter._producer._sender.is_stopped)
        return original(*request)

    stream.call = call
    with pytest.raises(PutFailed, match="record 2 was not put any more"):
        put(putter, b"a", b"b")
    stopping.join()
    assert (putter.acknowledged, putter.unknown) == (1, 0)


def test_a_failure_while_the_next_batch_is_made_is_told() -> None:
    stream = FakeStream()
    stream.faults = [REFUSED]
    with pytest.raises(PutFailed, match="record 1 was refused: SomeException: No"):
        put_all(putter_of(stream), iter([records(b"a"), records(b"b")]), at_once=False)
    assert stream.data() == []


def test_a_batch_ends_at_awss_limits_or_early() -> None:
    many = records(*[b"x"] * 501)
    assert [len(batch) for batch in batches(many)] == [500, 1]
    large = records(b"x" * 3_000_000, b"x" * 3_000_000, b"x")
    assert [len(batch) for batch in batches(large)] == [1, 2]
    first, second, third = records(b"a", b"b", b"c")
    # What no stream takes is the putter's to refuse.
    not_text = [{"Data": b"x", "PartitionKey": "\udcff"}]
    assert list(batches(not_text)) == [not_text]
    groups = list(batches([None, first, second, None, None, third]))
    assert [len(batch) for batch in groups] == [2, 1]


def test_a_line_s_key_is_a_member_of_its_json() -> None:
    lines = [b'{"id": "\xe8\x88\xb9", "n": 1}', b'{"id": 12345678901234567890.50}', b'{"id": true}']
    taken = list(records_of(lines, None, "id"))
    assert [record["PartitionKey"] for record in taken] == ["船", "12345678901234567890.50", "true"]
    assert [record["Data"] for record in taken] == lines


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "line 2 is not JSON"),
        (b"\xff", "line 2 is not JSON"),
        (b"[" * 100_000, "line 2 is not JSON"),
        (b"[1]", "line 2 has no text or number 'id' for its key"),
        (b'{"id": null}', "line 2 has no text or number 'id' for its key"),
        (b'{"id": ""}', "line 2 has no text or number 'id' for its key"),
        (b'{"id": {"a": 1}}', "line 2 has no text or number 'id' for its key"),
    ],
)
def test_a_line_without_its_key_is_refused_once_those_before_it_are_put(
    line: bytes, reason: str
) -> None:
    groups = batches(records_of([b'{"id": 1}', line, b'{"id": 2}'], None, "id"))
    assert [record["PartitionKey"] for record in next(groups)] == ["1"]
    with pytest.raises(NoKey, match=reason):
        next(groups)
