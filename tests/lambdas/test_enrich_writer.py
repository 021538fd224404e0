from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer import (
    ATTEMPTS,
    MAX_PACKED_BYTES,
    MAX_REQUEST_BYTES,
    Entry,
    next_request,
    records_of,
    write,
)

from tests.lambdas.fake_kinesis import FakeKinesis, taken_apart


def entries(count: int, *, size_bytes: int = 10) -> list[Entry]:
    return [Entry(str(n), f"{n}".encode().ljust(size_bytes), f"k{n % 3}") for n in range(count)]


def sources(written: list[Entry]) -> list[str]:
    return [entry.source for entry in written]


def data(kinesis: FakeKinesis) -> list[bytes]:
    return [record["Data"] for record in kinesis.records]


@given(st.lists(st.tuples(st.integers(0, 1 << 20), st.sampled_from("abcé")), max_size=40))
def test_records_hold_every_entry_in_its_keys_order_within_the_limits(
    sizes: list[tuple[int, str]],
) -> None:
    given_entries = [Entry(str(n), bytes(size), key) for n, (size, key) in enumerate(sizes)]

    waiting = records_of(given_entries)

    for key, records in waiting.items():
        assert [e for r in records for e in r.entries] == [
            entry for entry in given_entries if entry.partition_key == key
        ]
        for record in records:
            assert [e.data for e in record.entries] == taken_apart(record.data)
            assert len(record.entries) == 1 or record.size_bytes <= MAX_PACKED_BYTES
    request = next_request(waiting) if waiting else []
    assert len({record.partition_key for record in request}) == len(request)
    assert sum(record.size_bytes for record in request) <= MAX_REQUEST_BYTES
    assert bool(request) == bool(given_entries)


def test_a_request_takes_five_hundred_keys() -> None:
    kinesis = FakeKinesis()
    many = [Entry(str(n), b"x", f"k{n}") for n in range(501)]

    assert write(kinesis, "s", many, pause=lambda _: None) == []
    assert [len(request) for request in kinesis.requests] == [500, 1]


def test_five_hundred_flights_of_which_most_are_of_one_carrier_are_one_request() -> None:
    kinesis = FakeKinesis()
    keys = ["UA"] * 320 + ["AA"] * 179 + ["9E"]
    batch = [Entry(str(n), b"x" * 600, key) for n, key in enumerate(keys)]

    assert write(kinesis, "s", batch, pause=lambda _: None) == []
    assert [len(request) for request in kinesis.requests] == [3]
    # One alone is as it is.
    assert kinesis.records[-1]["Data"] == b"x" * 600


def test_of_a_key_that_is_refused_nothing_is_sent_before_it_and_others_go_on() -> None:
    def refuses(request: int, entry: dict[str, Any]) -> bool:
        return request < 2 and entry["PartitionKey"] == "k1"

    kinesis, pauses = FakeKinesis(refuses), []
    large = entries(6, size_bytes=MAX_PACKED_BYTES)

    assert write(kinesis, "s", large, pause=pauses.append) == []
    assert [[r["PartitionKey"] for r in request] for request in kinesis.requests] == [
        ["k0", "k1", "k2"],
        ["k0", "k1", "k2"],
        ["k1"],
        ["k1"],
    ]
    assert [each.strip() for each in data(kinesis)] == [b"0", b"2", b"3", b"5", b"1", b"4"]
    assert pauses == [0.05, 0.05]


@given(
    st.integers(0, 60), st.sampled_from((10, 100_000)), st.randoms(use_true_random=False),
    st.floats(0, 0.5),
)  # fmt: skip
def test_each_keys_entries_are_written_once_and_strictly_in_order(
    count: int, size_bytes: int, chosen: Random, chance: float
) -> None:
    """Whatever Kinesis refuses; what is not written is the end of a key's entries."""
    given_entries = entries(count, size_bytes=size_bytes)
    kinesis = FakeKinesis(lambda request, entry: chosen.random() < chance)

    unwritten = write(kinesis, "s", given_entries, pause=lambda _: None)

    assert unwritten == [entry for entry in given_entries if entry in unwritten]
    for key in ("k0", "k1", "k2"):
        taken = [
            each
            for record in kinesis.records
            if record["PartitionKey"] == key
            for each in taken_apart(record["Data"])
        ]
        of_key = [entry for entry in given_entries if entry.partition_key == key]
        assert taken == [entry.data for entry in of_key[: len(taken)]]
        assert of_key[len(taken) :] == [e for e in unwritten if e.partition_key == key]


def test_what_is_refused_to_the_end_is_returned_with_all_that_follows_of_its_key() -> None:
    kinesis = FakeKinesis(lambda request, entry: entry["PartitionKey"] == "k1")
    pauses: list[float] = []

    unwritten = write(kinesis, "s", entries(600), pause=pauses.append)

    assert sources(unwritten) == [*map(str, range(1, 600, 3))]
    # The first request takes the other keys along; the next six in vain follow.
    assert len(kinesis.requests) == ATTEMPTS
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6]


def test_an_error_of_the_client_is_the_callers() -> None:
    class Broken:
        def put_records(self, **_: Any) -> None:
            raise ConnectionError

    with pytest.raises(ConnectionError):
        write(Broken(), "s", entries(1), pause=lambda _: None)


def test_nothing_to_write_asks_nothing() -> None:
    kinesis = FakeKinesis()

    assert write(kinesis, "s", [], pause=lambda _: None) == []
    assert kinesis.requests == []
