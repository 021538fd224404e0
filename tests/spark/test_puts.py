"""What a PutRecords request takes, and what happens to refused records."""

from __future__ import annotations

import json
import random
from base64 import b64decode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.spark.puts import MOST_BYTES, MOST_RECORDS, Put, Sender, WriteFailed, take
from headrace.spark.sink import numbered


def puts(keys: list[str], data: bytes = b"x") -> list[Put]:
    return [Put(place, data, key) for place, key in enumerate(keys)]


@given(st.lists(st.sampled_from("abcd"), max_size=60), st.booleans())
def test_what_is_taken_and_left_is_what_waited_in_its_order(keys: list[str], ordered: bool) -> None:
    waiting = puts(keys)
    taken, left = take(waiting, ordered=ordered)
    assert sorted([*taken, *left], key=lambda put: put.place) == waiting
    for part in (taken, left):
        assert [put.place for put in part] == sorted(put.place for put in part)
    if ordered:
        assert len({put.key for put in taken}) == len(taken)
        first = {put.key: put.place for put in reversed(waiting)}
        assert all(first[put.key] == put.place for put in taken)


def test_a_request_has_no_more_than_five_hundred_records() -> None:
    taken, left = take(puts(["k"] * 1200), ordered=False)
    assert (len(taken), len(left)) == (MOST_RECORDS, 700)


def test_a_request_has_no_more_than_five_mebibytes_unless_one_record_has() -> None:
    taken, left = take(puts(["k", "l", "m"], b"x" * (MOST_BYTES // 2 - 1)), ordered=False)
    assert (len(taken), len(left)) == (2, 1)
    taken, left = take(puts(["k", "l"], b"x" * (MOST_BYTES + 1)), ordered=False)
    assert (len(taken), len(left)) == (1, 1)


class Stream:
    """Takes or refuses each record at random, and keeps what it took."""

    def __init__(self, seed: int, refuses: float) -> None:
        self.random = random.Random(seed)
        self.refuses = refuses
        self.stored: list[tuple[str, int]] = []
        self.now_s = 0.0

    def put_records(self, body: bytes) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        for entry in json.loads(body)["Records"]:
            if self.random.random() < self.refuses:
                answers.append({"ErrorCode": "ProvisionedThroughputExceededException"})
            else:
                self.stored.append((entry["PartitionKey"], int(b64decode(entry["Data"]))))
                answers.append({"SequenceNumber": "1", "ShardId": "s"})
        return answers

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def sender(self, *, ttl_s: float = 1e9) -> Sender:
        return Sender(
            self.put_records, "s", ordered=True, ttl_s=ttl_s, clock_s=lambda: self.now_s, sleep=self.sleep
        )  # fmt: skip


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 2**16))
def test_refused_records_only_are_sent_again_and_every_key_keeps_its_order(
    keys: list[str], seed: int
) -> None:
    stream = Stream(seed, refuses=0.4)
    sender = stream.sender()
    assert sender.send([Put(n, str(n).encode(), key) for n, key in enumerate(keys)]) == []
    assert sorted(number for _, number in stream.stored) == list(range(len(keys)))
    for key in set(keys):
        numbers = [number for stored, number in stream.stored if stored == key]
        assert numbers == sorted(numbers)
    assert sender.written.records == len(keys)


def test_a_record_that_is_always_refused_fails_the_write_after_its_time_to_live() -> None:
    stream = Stream(1, refuses=1.0)
    with pytest.raises(WriteFailed, match=r"for 3 s .*ProvisionedThroughputExceededException"):
        stream.sender(ttl_s=3).send(puts(["a"], b"1"))
    assert 3 <= stream.now_s < 6


class HotShard(Stream):
    """Stores every record but those of one key, and these not before ten seconds are over."""

    def put_records(self, body: bytes) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        for entry in json.loads(body)["Records"]:
            if entry["PartitionKey"] == "hot" and self.now_s < 10:
                answers.append({"ErrorCode": "ProvisionedThroughputExceededException"})
            else:
                self.stored.append((entry["PartitionKey"], int(b64decode(entry["Data"]))))
                self.stored_s.append(self.now_s)
                answers.append({"SequenceNumber": "1", "ShardId": "s"})
        return answers

    stored_s: list[float]


def test_a_hot_shard_does_not_hold_the_others_up() -> None:
    stream = HotShard(0, 0.0)
    stream.stored_s = []
    stream.sender(ttl_s=30).send(
        [Put(0, b"0", "hot")] + [Put(n, str(n).encode(), f"k{n}") for n in range(1, 5000)]
    )
    assert sorted(number for _, number in stream.stored) == list(range(5000))
    assert stream.stored[-1] == ("hot", 0)
    assert max(stream.stored_s[:-1]) < 1


def test_the_wait_doubles_up_to_two_seconds_and_is_short_again_after_a_success() -> None:
    stream = Stream(0, refuses=1.0)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 9:
            stream.refuses = 0.0

    sender = Sender(
        stream.put_records, "s", ordered=True, ttl_s=1e9, clock_s=lambda: 0.0, sleep=sleep
    )
    sender.send(puts(["a"], b"1"))
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    stream.refuses = 1.0
    waits.clear()
    sender.send(puts(["a"], b"1"))
    assert waits[0] == 0.05


def test_a_key_counts_by_its_bytes_and_a_hash_key_goes_with_the_record() -> None:
    assert Put(0, b"123", "é").size == 5
    entry = Put(0, b"1", "k", "7").entry()
    assert entry == {"Data": "MQ==", "PartitionKey": "k", "ExplicitHashKey": "7"}
    assert "ExplicitHashKey" not in Put(0, b"1", "k").entry()
    half = MOST_BYTES // 2
    taken, left = take([Put(0, b"x" * half, "k"), Put(1, b"x" * half, "l")], ordered=False)
    assert (len(taken), len(left)) == (1, 1)


def test_one_key_in_two_shards_is_two_lanes() -> None:
    taken, left = take([Put(0, b"1", "k", "0"), Put(1, b"2", "k", "1")], ordered=True)
    assert (len(taken), left) == (2, [])


def test_records_of_different_batches_never_share_a_place() -> None:
    """How long a record has been refused is kept by its place."""
    batches = [
        pa.RecordBatch.from_pydict({"data": [b"x"] * rows, "partitionKey": ["k"] * rows})
        for rows in (2, 0, 3)
    ]

    assert [[put.place for put in puts] for puts in numbered(batches)] == [[0, 1], [], [2, 3, 4]]
