from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer import ATTEMPTS, MAX_ENTRIES, MAX_REQUEST_BYTES, Entry, requests_of, write

from tests.lambdas.fake_kinesis import FakeKinesis


def entries(count: int, *, size_bytes: int = 10) -> list[Entry]:
    return [Entry(str(n), f"{n}".encode().ljust(size_bytes), f"k{n % 3}") for n in range(count)]


def sources(written: list[Entry]) -> list[str]:
    return [entry.source for entry in written]


def data(kinesis: FakeKinesis) -> list[bytes]:
    return [record["Data"] for record in kinesis.records]


@given(st.lists(st.integers(min_value=0, max_value=1 << 20), max_size=40))
def test_requests_hold_every_entry_in_order_within_the_limits(sizes: list[int]) -> None:
    given_entries = [Entry(str(n), bytes(size), "é") for n, size in enumerate(sizes)]

    requests = list(requests_of(given_entries))

    assert [entry for request in requests for entry in request] == given_entries
    assert all(requests)
    for request in requests:
        assert len(request) <= MAX_ENTRIES
        assert sum(entry.size_bytes for entry in request) <= MAX_REQUEST_BYTES


def test_five_hundred_entries_are_one_request_and_one_more_are_two() -> None:
    assert [len(request) for request in requests_of(entries(500))] == [500]
    assert [len(request) for request in requests_of(entries(501))] == [500, 1]


def test_of_a_key_everything_is_sent_again_from_its_first_refused_entry_on() -> None:
    def refuses(request: int, entry: dict[str, Any]) -> bool:
        return request == 0 and entry["Data"].strip() in (b"1", b"3")

    kinesis, pauses = FakeKinesis(refuses), []

    assert write(kinesis, "s", entries(8), pause=pauses.append) == []
    # Of k0 (0, 3, 6), k1 (1, 4, 7) and k2 (2, 5).
    assert [record["Data"].strip() for record in kinesis.requests[1]] == [
        b"1",
        b"3",
        b"4",
        b"6",
        b"7",
    ]
    assert pauses == [0.05]


@given(st.integers(0, 60), st.randoms(use_true_random=False), st.floats(0, 0.5))
def test_the_last_copies_of_a_keys_entries_are_in_order(
    count: int, chosen: Random, chance: float
) -> None:
    """Whatever Kinesis refuses, and whatever it takes meanwhile."""
    kinesis = FakeKinesis(lambda request, entry: chosen.random() < chance)
    unwritten = {entry.data for entry in write(kinesis, "s", entries(count), pause=lambda _: None)}

    for key in ("k0", "k1", "k2"):
        taken = [int(r["Data"]) for r in kinesis.records if r["PartitionKey"] == key]
        last = list(dict.fromkeys(reversed(taken)))[::-1]
        wanted = [e for e in entries(count) if e.partition_key == key and e.data not in unwritten]
        # What is unwritten in its place comes again by the next invocation, behind all of this.
        in_place = [number for number in last if str(number).encode().ljust(10) not in unwritten]
        assert in_place == [int(entry.data) for entry in wanted]


def test_a_request_is_sent_when_the_one_before_is_wholly_written() -> None:
    kinesis = FakeKinesis(lambda request, entry: request < 2 and entry["PartitionKey"] == "k0")

    assert write(kinesis, "s", entries(600), pause=lambda _: None) == []
    assert [len(request) for request in kinesis.requests] == [500, 167, 167, 100]
    by_key = [record for record in kinesis.records if record["PartitionKey"] == "k0"]
    assert [int(record["Data"]) for record in by_key] == list(range(0, 600, 3))


def test_what_is_refused_to_the_end_is_returned_with_all_that_follows() -> None:
    kinesis = FakeKinesis(lambda request, entry: entry["Data"].strip() == b"7")
    pauses: list[float] = []

    unwritten = write(kinesis, "s", entries(600), pause=pauses.append)

    again = [*map(str, range(7, 500, 3))]  # all of its key that the request holds
    assert sources(unwritten) == [*again, *map(str, range(500, 600))]
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
