"""What a task writes, record by record: bad rows, large ones, refused ones, and tasks that are done again."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.client.faults import Faults
from headrace.spark import sink
from headrace.spark.client import KinesisError
from headrace.spark.options import parse_sink_options
from headrace.spark.sink import InvalidSchema, TaskCounts, write
from tests.spark.conftest import Stream
from tests.support.server import ServerProcess

MIB = 1024 * 1024
Row = tuple[bytes | str | None, str | None, str | None]


def put(stream: Stream, rows: list[Row], *, batch_rows: int = 100, **more: str) -> TaskCounts:
    """Write rows as one task does."""
    options = stream.options(**more)
    del options["kinesis.startingposition"]
    return write(parse_sink_options(options), batches(rows, batch_rows))


def batches(rows: list[Row], batch_rows: int) -> Iterator[Any]:
    for start in range(0, len(rows), batch_rows):
        data, keys, hashes = zip(*rows[start : start + batch_rows], strict=True)
        kind = pa.string() if any(isinstance(one, str) for one in data) else pa.binary()
        yield pa.RecordBatch.from_arrays(
            [pa.array(data, kind), pa.array(keys, pa.string()), pa.array(hashes, pa.string())],
            names=["data", "partitionKey", "explicitHashKey"],
        )


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        ((None, "k", None), "has no data"),
        ((b"x", None, None), "has no partitionKey"),
        ((b"x", "", None), "has no partitionKey"),
    ],
)
def test_a_row_without_data_or_key_fails_the_task(make_stream: Any, row: Row, refusal: str) -> None:
    stream = make_stream(1)
    with pytest.raises(InvalidSchema, match=refusal):
        put(stream, [(b"good", "k", None), row])
    assert stream.records() == []


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        ((b"x", "k" * 257, None), r"partitionKey.*less than or equal to 256"),
        ((b"x" * (MIB + 1), "k", None), r"InvalidArgumentException|ValidationException"),
        ((b"x", "k", "-1"), r"ValidationException.*explicitHashKey"),
        ((b"x", "k", "seven"), r"ValidationException.*explicitHashKey"),
        ((b"x", "k", str(2**128)), r"InvalidArgumentException"),
    ],
)
def test_what_kinesis_refuses_for_good_fails_the_task_and_says_why(
    make_stream: Any, row: Row, refusal: str
) -> None:
    stream = make_stream(1)
    with pytest.raises(KinesisError, match=rf"{refusal}.*\(stream {stream.name}, http"):
        put(stream, [(b"good", "k", None), row])


def test_the_largest_records_and_the_smallest_are_stored_as_they_are(make_stream: Any) -> None:
    stream = make_stream(2)
    rows: list[Row] = [(bytes([n]) * (MIB - 1), f"{n % 10}", None) for n in range(12)]
    rows += [(b"", "empty", None), (b"\x00\xff", "é" * 256, ""), (b"z", "z", str(2**128 - 1))]
    done = put(stream, rows, batch_rows=5)
    assert done.records == len(rows)
    assert done.bytes == sum(len(data or b"") + len((key or "").encode()) for data, key, _ in rows)
    found = Counter((record["Data"], record["PartitionKey"]) for record in stored_slowly(stream))
    assert found == Counter((data, key) for data, key, _ in rows)


def stored_slowly(stream: Stream) -> list[Any]:
    """Return a stream's records although an answer holds few of them."""
    found: list[Any] = []
    for shard in stream.shards():
        iterator = stream.kinesis.get_shard_iterator(
            StreamName=stream.name, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON"
        )["ShardIterator"]
        while True:
            page = stream.kinesis.get_records(ShardIterator=iterator)
            found += page["Records"]
            iterator = page["NextShardIterator"]
            if page["MillisBehindLatest"] == 0:
                break
    return found


ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.binary(max_size=40)),
        st.one_of(st.none(), st.text(max_size=8), st.just("k" * 257)),
        st.one_of(st.none(), st.integers(-1, 2**128).map(str), st.text(max_size=4)),
    ),
    min_size=1, max_size=6,
)  # fmt: skip
GOOD = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.text(min_size=1, max_size=8),
        st.one_of(st.none(), st.just(""), st.integers(0, 2**128 - 1).map(str)),
    ),
    max_size=30,
)


@pytest.fixture(scope="module")
def one_stream(server: ServerProcess) -> Stream:
    return Stream(server, "any-rows", 2)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.one_of(GOOD, ROWS))  # fmt: skip
def test_any_rows_are_stored_as_they_are_or_end_in_an_error_that_says_why(
    one_stream: Stream, rows: list[Row]
) -> None:
    before = len(one_stream.records())
    if any(data is None or not key for data, key, _ in rows):
        with pytest.raises((InvalidSchema, KinesisError)):
            put(one_stream, rows, batch_rows=4)
        return
    if not all(_sound(row) for row in rows):
        with pytest.raises(KinesisError, match=r"ValidationException|InvalidArgumentException"):
            put(one_stream, rows, batch_rows=4)
        return
    done = put(one_stream, rows, batch_rows=4)
    assert done.records == len(rows)
    assert len(one_stream.records()) - before == len(rows)
    tail = Counter((r["Data"], r["PartitionKey"]) for r in one_stream.records())
    assert not Counter((data, key) for data, key, _ in rows) - tail


def _sound(row: Row) -> bool:
    data, key, explicit = row
    number = not explicit or (explicit.isdecimal() and explicit.isascii())
    return (
        data is not None
        and 1 <= len(key or "") <= 256
        and number
        and (not explicit or (int(explicit) < 2**128 and (explicit == "0" or explicit[0] != "0")))
    )


def numbered(count: int, keys: int) -> list[Row]:
    return [(str(n).encode(), f"key-{n % keys}", None) for n in range(count)]


def orders(stream: Stream) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for record in stream.records():
        found[record["PartitionKey"]].append(int(record["Data"]))
    return found


def test_records_that_are_refused_one_by_one_keep_the_order_of_their_keys(
    server: ServerProcess, make_stream: Any
) -> None:
    stream = make_stream(2)
    with Faults(server.endpoint_url) as faults:
        rule = faults.add(
            "partial", service="kinesis", action="PutRecords", stream=stream.name,
            probability=0.2, seed=7,
        )  # fmt: skip
        done = put(stream, numbered(900, keys=300))
        (rule,) = [one for one in faults.list() if one["id"] == rule["id"]]
    assert done.retried == rule["acted"] > 50
    assert done.records == 900
    found = orders(stream)
    assert Counter(n for numbers in found.values() for n in numbers) == Counter(range(900))
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_a_request_whose_answer_is_lost_is_sent_again_and_order_stays(
    server: ServerProcess, make_stream: Any
) -> None:
    stream = make_stream(2)
    with Faults(server.endpoint_url) as faults:
        for when in ("before", "after"):
            faults.add(
                "drop",
                service="kinesis",
                action="PutRecords",
                stream=stream.name,
                count=1,
                when=when,
            )
        put(stream, numbered(400, keys=100))
    found = orders(stream)
    seen = Counter(n for numbers in found.values() for n in numbers)
    assert set(seen) == set(range(400))
    assert set(seen.values()) == {1, 2}
    assert all(numbers == sorted(numbers) for numbers in found.values())


def test_a_task_that_fails_half_way_and_is_done_again_loses_nothing(make_stream: Any) -> None:
    stream = make_stream(1)
    rows = numbered(12_000, keys=4000)
    options = stream.options()
    del options["kinesis.startingposition"]

    def failing() -> Iterator[Any]:
        for number, batch in enumerate(batches(rows, 3000)):
            if number == 3:
                raise OSError("the executor's disk is full")
            yield batch

    # It looks ahead for other keys, so a part of what it has been given is stored by then, and a part is not.
    with pytest.raises(OSError, match="disk is full"):
        write(parse_sink_options({**options, "kinesis.sink.ordered": "false"}), failing())
    half = len(stream.records())
    assert 0 < half < len(rows)
    put(stream, rows, batch_rows=3000)
    seen = Counter(n for numbers in orders(stream).values() for n in numbers)
    assert set(seen) == set(range(len(rows)))
    assert sum(seen.values()) == half + len(rows)
    assert max(seen.values()) == 2


def test_tasks_of_one_process_share_a_client_that_still_fits(
    make_stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, other = make_stream(1), make_stream(1)
    put(first, numbered(5, keys=5))
    (kept,) = sink._kept.values()
    put(first, numbered(5, keys=5))
    assert list(sink._kept.values()) == [kept]
    monkeypatch.setenv("AWS_PROFILE_OF_THIS_TEST", "another")
    put(first, numbered(5, keys=5))
    assert list(sink._kept.values()) != [kept]
    put(other, numbered(5, keys=5))
    (now,) = sink._kept.values()
    with pytest.raises(InvalidSchema):
        put(other, [(None, "k", None)])
    # What has failed is not used again.
    assert now not in sink._kept.values()
    assert (len(first.records()), len(other.records())) == (15, 5)
