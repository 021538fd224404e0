"""Records that the Kinesis Producer Library has aggregated come out one by one."""

from __future__ import annotations

import contextlib
from hashlib import md5
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.get_records import PAGE_SCHEMA
from headrace.spark.reading import MAGIC, NotAggregated, deaggregate, expand


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def aggregated(users: list[tuple[str, bytes]]) -> bytes:
    """Return an aggregated record as the library's documentation describes it, hash keys and tags included."""
    keys = sorted({key for key, _ in users})
    body = b"".join(field(1, key.encode()) for key in keys) + field(2, b"340282366920938463463")
    for key, data in users:
        index = b"\x08" + varint(keys.index(key)) + b"\x10\x00"
        body += field(3, index + field(3, data) + field(4, field(1, b"tag")))
    return MAGIC + body + md5(body, usedforsecurity=False).digest()


USERS = st.lists(st.tuples(st.text(min_size=1, max_size=20), st.binary(max_size=300)), max_size=8)


@given(USERS)
def test_user_records_come_out_as_they_went_in(users: list[tuple[str, bytes]]) -> None:
    assert deaggregate(aggregated(users)) == users


@given(st.binary(max_size=100))
def test_a_wrong_digest_is_no_aggregate(body: bytes) -> None:
    with pytest.raises(NotAggregated):
        deaggregate(MAGIC + body + b"\x00" * 16)


@given(st.binary(max_size=100))
def test_a_message_that_is_none_breaks_nothing(body: bytes) -> None:
    with contextlib.suppress(NotAggregated):
        found = deaggregate(MAGIC + body + md5(body, usedforsecurity=False).digest())
        assert all(isinstance(key, str) for key, _ in found)


def signed(body: bytes) -> bytes:
    return MAGIC + body + md5(body, usedforsecurity=False).digest()


@pytest.mark.parametrize(
    "body",
    [
        b"\x80" * 1_000_000 + b"\x01",  # a number of seven million bits
        field(1, b"k" * 257) + field(3, b"\x08\x00"),
        field(1, b"k" * 1_000_000) + field(3, b"\x08\x00") * 100_000,
        field(1, b"k" * 256) + field(3, b"\x08\x00") * 300_000,
    ],
)
def test_a_message_that_swells_is_a_record_as_any_other(body: bytes) -> None:
    """Of a megabyte, a job would make a hundred gigabytes, or work for hours."""
    with pytest.raises(NotAggregated):
        deaggregate(signed(body))


def test_the_longest_key_of_kinesis_is_taken() -> None:
    users = [("k" * 256, b"x")] * 1000
    assert deaggregate(aggregated(users)) == users


def page(*data: bytes) -> pa.RecordBatch:
    """Return records with this data, the key `k`, and sequence numbers from 10 on."""
    rows = range(len(data))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(data, pa.binary()),
            pa.array(["k" for _ in rows], pa.string()),
            pa.array([str(10 + row) for row in rows], pa.string()),
            pa.array(rows, pa.timestamp("us", tz="UTC")),
        ],
        schema=PAGE_SCHEMA,
    )


def test_a_batch_keeps_its_order_and_the_other_columns_of_each_record() -> None:
    users = [("a", b"1"), ("b", b"2")]
    data = [b"0", aggregated(users), MAGIC + b"no digest of this", b"3"]
    found = expand(page(*data))
    rows = list(zip(*(found.column(n).to_pylist() for n in range(3)), strict=True))
    assert rows == [
        (b"0", "k", "10"), (b"1", "a", "11"), (b"2", "b", "11"), (data[2], "k", "12"), (b"3", "k", "13"),
    ]  # fmt: skip


def test_an_aggregated_record_is_not_copied_once_for_each_user_record() -> None:
    record = aggregated([("k", b"x" * 20)] * 2000)
    before, counted = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(counted)
    try:
        assert expand(page(record)).num_rows == 2000
    finally:
        pa.set_memory_pool(before)
    assert counted.max_memory() < 10 * len(record)


@pytest.mark.spark
def test_a_query_sees_user_records(spark: Any, make_stream: Any) -> None:
    stream = make_stream(1)
    stream.kinesis.put_record(
        StreamName=stream.name, PartitionKey="ignored", Data=aggregated([("a", b"1"), ("b", b"2")])
    )
    frame = spark.read.format("kinesis").options(**stream.options()).load()
    assert [(row.partitionKey, bytes(row.data)) for row in frame.collect()] == [
        ("a", b"1"), ("b", b"2"),
    ]  # fmt: skip
    assert frame.select("sequenceNumber").distinct().count() == 1
