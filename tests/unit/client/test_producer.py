"""The producer over a stream without a cloud: retries, order, aggregates over reshards, back-pressure, the journal."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.client import cbor
from headrace.client.aggregation import disaggregate
from headrace.client.hash_keys import hash_key_of
from headrace.client.producer import Producer
from headrace.client.receipts import BufferFull, PutError, PutsFailed, Receipt
from headrace.client.wire import ServiceError, WireError
from tests.support.fake_stream import FakeStream, throttle
from tests.support.server import wait_until

THROTTLED = "ProvisionedThroughputExceededException"


def producer_of(stream: FakeStream, **options: Any) -> Producer:
    settings = {"linger_ms": 1.0, "connections": 1, "seed": 1, **options}
    return Producer("s", streams=stream, make_wire=lambda: stream, **settings)  # type: ignore[arg-type]


def test_a_receipt_says_where_its_record_is():
    stream = FakeStream()
    with producer_of(stream, linger_ms=10_000, max_records=2) as producer:
        first, second = producer.put(b"a", "k"), producer.put(b"b", "k", explicit_hash_key=7)
        assert (first.result(5).shard_id, first.sequence_number[-1]) == (
            "shardId-000000000000",
            "1",
        )
        assert second.result(5).sequence_number[-1] == "2"
    assert stream.requests[0]["Records"][1]["ExplicitHashKey"] == "7"
    assert producer.metrics().acknowledged == 2


def test_records_are_batched_by_count_and_bytes():
    stream = FakeStream()
    with producer_of(stream, linger_ms=10_000, max_records=10, max_bytes=3000) as producer:
        for _ in range(20):
            producer.put(b"x", "k")
        for _ in range(3):
            producer.put(b"x" * 1400, "k")
    assert [len(request["Records"]) for request in stream.requests][:2] == [10, 10]
    assert [len(request["Records"]) for request in stream.requests][2:] == [2, 1]


def test_only_failed_entries_are_sent_again():
    stream = FakeStream()
    stream.faults = [[None, THROTTLED, None]]
    with producer_of(stream, linger_ms=10_000, max_records=3) as producer:
        receipts = [producer.put(b"%d" % i, "k") for i in range(3)]
        producer.flush(5)
        assert [receipt.sequence_number[-1] for receipt in receipts] == ["1", "3", "2"]
    assert [len(request["Records"]) for request in stream.requests] == [3, 1]
    assert sorted(stream.data()) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "error", [throttle(), WireError("lost"), ServiceError("InternalFailure", "", 500)]
)
def test_a_request_without_an_answer_is_sent_again(error: Exception):
    stream = FakeStream()
    stream.faults = [error]
    with producer_of(stream) as producer:
        assert producer.put(b"a", "k").result(5).shard_id == "shardId-000000000000"


def test_a_refusal_that_stays_fails_the_records_and_the_flush_says_so():
    stream = FakeStream()
    stream.faults = [ServiceError("ResourceNotFoundException", "no stream", 400)] * 2
    producer = producer_of(stream, max_records=2, linger_ms=10_000)
    receipts = [producer.put(b"a", "k"), producer.put(b"b", "k")]
    assert isinstance(receipts[0].exception(5), PutError)
    with pytest.raises(
        PutsFailed, match="2 records were not put; the first: ResourceNotFoundException"
    ):
        producer.flush(5)
    heard = threading.Event()
    producer.put(b"c", "k", on_done=lambda _: heard.set())
    producer.close(5)
    assert heard.is_set()


def test_one_invalid_record_does_not_take_the_others_with_it():
    stream = FakeStream()
    invalid = ServiceError("ValidationException", "bad key", 400)
    stream.faults = [invalid, [None], invalid, [None]]
    producer = producer_of(stream, max_records=3, linger_ms=10_000)
    receipts = [producer.put(b"%d" % i, "k") for i in range(3)]
    assert [receipt.exception(5) is None for receipt in receipts] == [True, False, True]
    with pytest.raises(PutsFailed, match="1 record was not put"):
        producer.close(5)


def test_a_record_that_stays_refused_expires():
    stream = FakeStream()
    stream.faults = [[THROTTLED]] * 50
    producer = producer_of(stream, give_up_after_s=0.0)
    error = producer.put(b"a", "k").exception(5)
    assert error is not None
    assert error.code == "RecordExpired"
    with pytest.raises(PutsFailed):
        producer.close(5)


def test_callbacks_that_raise_are_logged_and_others_are_called(caplog: pytest.LogCaptureFixture):
    stream = FakeStream()
    calls: list[Receipt] = []

    def bad(_: Receipt) -> None:
        raise ValueError("mine")

    with producer_of(stream) as producer:
        receipt = producer.put(b"a", "k", on_done=bad)
        receipt.add_done_callback(calls.append)
        producer.flush(5)
        receipt.add_done_callback(calls.append)
    assert len(calls) == 2
    assert "A callback of a record of s raised" in caplog.text


def test_keys_and_sizes_are_checked_before_the_record_is_taken():
    with producer_of(FakeStream()) as producer:
        for key in ("", "k" * 257):
            with pytest.raises(ValueError, match="a partition key has 1 to 256 characters"):
                producer.put(b"a", key)
        with pytest.raises(ValueError, match="at most 10485760 bytes"):
            producer.put(b"a" * (10 << 20), "k")
        with pytest.raises(ValueError, match="an explicit hash key"):
            producer.put(b"a", "k", explicit_hash_key=1 << 128)


def test_without_a_key_records_get_random_ones():
    stream = FakeStream(8)
    with producer_of(stream) as producer:
        for i in range(100):
            producer.put(b"%d" % i)
    assert all(len(records) > 0 for records in stream.records.values())


# Aggregates.


def users_of(stream: FakeStream) -> dict[str, list[bytes]]:
    """Return what a consumer sees of each shard: user records whose hash key is the shard's."""
    seen: dict[str, list[bytes]] = {}
    for shard in stream.all:
        for row in stream.records[shard.shard_id]:
            users = disaggregate(row["Data"])
            if users is None:
                # A record that was alone.
                seen.setdefault(shard.shard_id, []).append(row["Data"])
                continue
            seen.setdefault(shard.shard_id, []).extend(
                user.data
                for user in users
                if (hash_key_of(user.key) if user.explicit is None else int(user.explicit)) in shard
            )
    return seen


def test_an_aggregate_has_records_of_its_shard_only():
    stream = FakeStream(4)
    with producer_of(stream, aggregate=True) as producer:
        for i in range(1000):
            producer.put(b"%d" % i, f"key-{i % 100}")
        producer.put(b"auto")
    entries = sum(len(records) for records in stream.records.values())
    assert entries < 50
    seen = users_of(stream)
    assert sorted(data for users in seen.values() for data in users) == sorted(
        [*(b"%d" % i for i in range(1000)), b"auto"]
    )


def test_a_record_alone_is_not_packed():
    stream = FakeStream(2)
    with producer_of(stream, aggregate=True, linger_ms=10_000) as producer:
        producer.put(b"one", "k")
        producer.flush(5)
        producer.put(b"auto")
        producer.flush(5)
    assert sorted(stream.data()) == [b"auto", b"one"]


def test_after_a_split_no_user_record_stays_in_a_foreign_shard():
    stream = FakeStream(1)
    with producer_of(stream, aggregate=True, linger_ms=10_000) as producer:
        producer.put(b"first", "a")
        producer.flush(5)
        left, _ = stream.split("shardId-000000000000")
        stream.split(left.shard_id)
        receipts = [producer.put(b"%d" % i, f"key-{i}") for i in range(200)]
        producer.flush(5)
        for receipt in receipts:
            shard = stream.open[receipt.shard_id]
            assert hash_key_of(receipt.key or "") in shard
    seen = [data for users in users_of(stream).values() for data in users]
    assert sorted(seen) == sorted([b"first", *(b"%d" % i for i in range(200))])
    assert producer.metrics().in_foreign_shard > 0
    assert producer.metrics().map_refreshes == 1


def test_a_merge_needs_no_second_put():
    stream = FakeStream(2)
    with producer_of(stream, aggregate=True, linger_ms=10_000) as producer:
        for i in range(100):
            producer.put(b"%d" % i, f"key-{i}")
        stream.merge("shardId-000000000000", "shardId-000000000001")
    assert producer.metrics().in_foreign_shard == 0
    assert len(stream.data()) == 2


# Many at once.

MIXED = [
    (b"%d" % i, [f"key-{i % 7}", None, "schlüssel", f"other-{i}"][i % 4 if i % 3 else 0])
    for i in range(1200)
]


@pytest.mark.parametrize(
    "options",
    [{}, {"aggregate": True}, {"ordered": True}, {"max_records": 3}, {"max_buffered_records": 10}],
)
@pytest.mark.parametrize(
    "rows", [MIXED, [(data, key) for data, key in MIXED if key != "schlüssel" and key]]
)
def test_put_many_puts_what_put_does(options: dict[str, Any], rows: list[tuple[bytes, str | None]]):
    stream = FakeStream(3)
    with producer_of(stream, **options) as producer:
        receipts = producer.put_many(iter(rows))
        producer.put_many([])
        assert receipts.result(10) is receipts
        assert receipts.done()
    assert [(receipt.data, receipt.key) for receipt in receipts] == rows
    assert receipts[1:3] == [receipts[1], receipts[2]]
    assert {receipt.shard_id for receipt in receipts} <= set(stream.open)
    seen = [data for users in users_of(stream).values() for data in users]
    assert sorted(seen) == sorted(data for data, _ in rows)


def test_put_many_with_a_spool_keeps_every_record(tmp_path: Path):
    stream = FakeStream()
    stream.faults = [WireError("no")] * 1000
    producer = producer_of(stream, spool=tmp_path)
    producer.put_many([(b"a", "k"), (b"b", None)])
    with pytest.raises(TimeoutError):
        producer.close(0.0)
    stream.faults = []
    producer_of(stream, spool=tmp_path).close(5)
    assert sorted(stream.data()) == [b"a", b"b"]


@pytest.mark.parametrize(
    "bad", [{"connections": 0}, {"max_buffered_records": 0}, {"max_records": 0}, {"linger_ms": -1}]
)
def test_a_producer_that_is_refused_leaves_the_spool_as_it_is(bad: dict[str, Any], tmp_path: Path):
    with pytest.raises(ValueError, match=next(iter(bad))):
        producer_of(FakeStream(), spool=tmp_path / "spool", **bad)
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    "bad", [(b"b", ""), (b"b", "x" * 257), (b"b", "\ud800"), (bytes(11 << 20), "k")]
)
def test_put_many_takes_none_when_one_is_not_valid(bad: tuple[bytes, str]):
    stream = FakeStream()
    with producer_of(stream) as producer, pytest.raises(ValueError, match=r"record has|key"):
        producer.put_many([(b"a", "k"), bad])
    assert stream.data() == []


def test_put_many_says_what_a_full_buffer_took():
    stream = FakeStream()
    producer, go = stuck(stream, when_full="raise")
    with pytest.raises(BufferFull) as full:
        producer.put_many([(b"%d" % i, "k") for i in range(100)])
    taken = [receipt.data for receipt in full.value.taken]
    assert taken == [b"%d" % i for i in range(len(taken))]
    assert 0 < len(taken) < 100
    go.set()
    producer.close(5)
    assert stream.data() == taken


def test_put_many_counts_what_a_full_buffer_drops():
    stream = FakeStream()
    producer, go = stuck(stream, when_full="drop")
    receipts = producer.put_many([(b"a", "k")] * 100)
    go.set()
    with pytest.raises(PutError, match="Dropped"):
        receipts.result(5)
    producer.close(5)
    dropped = sum(receipt.exception() is not None for receipt in receipts)
    assert 0 < dropped == producer.metrics().dropped == 100 - len(stream.data())


def test_waiting_for_many_receipts_ends():
    producer, go = stuck(FakeStream())
    receipts = producer.put_many([(b"a", "k"), (b"b", "k")])
    with pytest.raises(TimeoutError):
        receipts.result(0.0)
    go.set()
    producer.close(5)
    assert receipts.done()


# Order.


@pytest.mark.parametrize("at_once", [1, 7, 150])
@pytest.mark.parametrize("aggregate", [False, True])
def test_the_order_of_each_key_survives_failures_and_reshards(aggregate: bool, at_once: int):
    stream = FakeStream(2)
    stream.faults = [
        [None, THROTTLED, None, THROTTLED, THROTTLED] * 3 if i % 2 else [] for i in range(20)
    ]
    with producer_of(
        stream, ordered=True, aggregate=aggregate, connections=3, aggregate_records=7
    ) as producer:
        for start in range(0, 300, at_once):
            rows_of_call = [(b"%d" % i, f"key-{i % 10}") for i in range(start, start + at_once)]
            if at_once == 1:
                producer.put(*rows_of_call[0])
            else:
                producer.put_many(rows_of_call[: 300 - start])
            if start <= 150 < start + at_once:
                stream.split("shardId-000000000000")
    rows: list[tuple[str, int]] = []
    for shard in stream.all:
        for row in stream.records[shard.shard_id]:
            users = disaggregate(row["Data"]) if aggregate else None
            if users is None:
                rows.append((row["PartitionKey"], int(row["Data"])))
            else:
                rows += [(u.key, int(u.data)) for u in users if hash_key_of(u.key) in shard]
    for key in {key for key, _ in rows}:
        numbers = [number for other, number in rows if other == key]
        assert numbers == sorted(set(numbers)), key
    assert len(rows) == 300


# Back-pressure.


def stuck(stream: FakeStream, **options: Any) -> tuple[Producer, threading.Event]:
    """Return a producer whose requests wait for the event."""
    go = threading.Event()

    class Wire:
        def call(self, action: str, body: bytes, content_type: str) -> bytes:
            assert go.wait(10)
            return stream.call(action, body, content_type)

        def close(self) -> None:
            pass

    producer = Producer(
        "s", streams=stream, make_wire=Wire, linger_ms=0.0, connections=1, max_records=5,
        max_buffered_records=10, **options,
    )  # type: ignore[arg-type]  # fmt: skip
    return producer, go


def test_a_full_buffer_raises():
    producer, go = stuck(FakeStream(), when_full="raise")
    taken: list[Receipt] = []

    def fill() -> None:
        while len(taken) < 100:
            taken.append(producer.put(b"a", "k"))

    with pytest.raises(BufferFull):
        fill()
    go.set()
    producer.close(5)


def test_a_full_buffer_drops():
    stream = FakeStream()
    producer, go = stuck(stream, when_full="drop")
    receipts = [producer.put(b"a", "k") for _ in range(100)]
    go.set()
    errors = [receipt.exception(5) for receipt in receipts]
    dropped = [error for error in errors if error is not None]
    assert {error.code for error in dropped} == {"Dropped"}
    producer.close(5)
    assert len(stream.data()) == 100 - len(dropped) == 100 - producer.metrics().dropped


def test_a_full_buffer_blocks_until_there_is_room():
    stream = FakeStream()
    producer, go = stuck(stream)
    threading.Timer(0.05, go.set).start()
    for i in range(100):
        producer.put(b"%d" % i, "k")
    producer.close(5)
    assert stream.data() == [b"%d" % i for i in range(100)]


def test_a_record_that_is_refused_while_the_producer_closes_fails():
    stream = FakeStream()
    asked, closing = threading.Event(), threading.Event()
    original = stream.call

    def call(*request: Any) -> bytes:
        stream.faults = [[THROTTLED]]
        asked.set()
        closing.wait(5)
        return original(*request)

    stream.call = call  # type: ignore[method-assign]
    producer = producer_of(stream)
    receipt = producer.put(b"a", "k")
    assert asked.wait(5)

    def close() -> None:
        with pytest.raises(TimeoutError):
            producer.close(0.0)

    thread = threading.Thread(target=close)
    thread.start()
    wait_until(lambda: producer._sender.is_stopped)
    closing.set()
    thread.join()
    error = receipt.exception(5)
    assert error is not None
    assert (error.code, error.attempts, error.may_be_there) == ("Closed", 1, False)


def test_what_waits_when_the_producer_is_closed_fails():
    producer, go = stuck(FakeStream())
    receipt = producer.put(b"a", "k")
    threading.Timer(0.3, go.set).start()
    with pytest.raises(TimeoutError, match="records still wait"):
        producer.close(0.01)
    assert receipt.done()
    with pytest.raises(PutError, match="closed"):
        producer.put(b"b", "k")


# The rate of a shard.


def test_a_share_of_the_shards_quota_is_not_exceeded():
    stream = FakeStream(1)
    with producer_of(stream, rate_share=0.1, linger_ms=1) as producer:
        receipts = [producer.put(b"a", "k") for _ in range(150)]
        assert receipts[90].result(5)
        assert not receipts[149].done()
    assert len(stream.data()) == 150


# The journal.


def test_an_answer_in_json_is_read_as_one_in_cbor():
    # A server other than AWS's may answer so, though CBOR was asked for.
    class Json(FakeStream):
        def call(self, action: str, body: bytes, content_type: str) -> bytes:
            answer = super().call(action, body, content_type)
            return json.dumps(cbor.loads(answer)).encode()

    for options in ({}, {"aggregate": True}):
        stream = Json()
        stream.faults = [[THROTTLED]]
        with producer_of(stream, **options) as producer:
            assert producer.put(b"a", "k").result(5).shard_id == "shardId-000000000000"
        assert len(stream.requests) == 2
