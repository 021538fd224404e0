"""What a PutRecords request takes, what is under way beside it, and what happens to refused records."""

from __future__ import annotations

import json
import random
import threading
from base64 import b64decode
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.spark.sink import MOST_BYTES, MOST_RECORDS, InvalidKey, Sender, WriteFailed, _columns


def send(
    sender: Sender,
    keys: list[str],
    data: list[bytes] | None = None,
    hashes: list[str | None] | None = None,
) -> None:
    """Send records, by default with their numbers as data, and end."""
    data = [b"%d" % n for n in range(len(keys))] if data is None else data
    try:
        sender.add(data, [key.encode() for key in keys], hashes)
        sender.send()
    finally:
        sender.close()
    assert (sender.waiting, sender.waiting_bytes) == (0, 0)


class Stream:
    """Takes or refuses each record at random, and keeps what it took."""

    def __init__(self, seed: int, refuses: float) -> None:
        self.random = random.Random(seed)
        self.refuses = refuses
        self.stored: list[tuple[str, int]] = []
        self.now_s = 0.0
        self.requests: list[list[dict[str, str]]] = []
        self.lock = threading.Lock()

    def put_records(self, body: bytes) -> list[dict[str, Any]] | None:
        request = json.loads(body)
        assert request["StreamName"] == "s"
        with self.lock:
            self.requests.append(request["Records"])
            return self.answers(request["Records"])

    def answers(self, entries: list[dict[str, str]]) -> list[dict[str, Any]] | None:
        answers: list[dict[str, Any]] = []
        for entry in entries:
            if self.random.random() < self.refuses:
                answers.append({"ErrorCode": "ProvisionedThroughputExceededException"})
            else:
                self.stored.append((entry["PartitionKey"], int(b64decode(entry["Data"]))))
                answers.append({"SequenceNumber": "1", "ShardId": "s"})
        return answers if any("ErrorCode" in answer for answer in answers) else None

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def sender(self, *, ttl_s: float = 1e9, ordered: bool = True) -> Sender:
        return Sender(
            self.put_records, "s",
            ordered=ordered, ttl_s=ttl_s, clock_s=lambda: self.now_s, sleep=self.sleep,
        )  # fmt: skip


@given(
    st.lists(st.sampled_from("abc"), max_size=40), st.integers(0, 2**16), st.sampled_from([0.0, 0.4])
)  # fmt: skip
def test_refused_records_only_are_sent_again_and_every_key_keeps_its_order(
    keys: list[str], seed: int, refuses: float
) -> None:
    stream = Stream(seed, refuses)
    sender = stream.sender()
    send(sender, keys)
    assert sorted(number for _, number in stream.stored) == list(range(len(keys)))
    for key in set(keys):
        numbers = [number for stored, number in stream.stored if stored == key]
        assert numbers == sorted(numbers)
    for entries in stream.requests:
        assert len({entry["PartitionKey"] for entry in entries}) == len(entries)
    assert sender.written.records == len(keys)
    assert sender.written.retried == sum(map(len, stream.requests)) - len(keys)


@settings(max_examples=20)
@given(st.integers(0, 2**16))
def test_any_answers_in_any_order_keep_every_key_in_its_order(seed: int) -> None:
    """Several requests are under way, and a later one may be answered first."""
    chance = random.Random(seed)
    keys = [f"k{chance.randrange(1200)}" for _ in range(6000)]
    stream = Stream(seed, refuses=0.05)
    held: list[threading.Event] = []
    put = stream.put_records

    def slowly(body: bytes) -> list[dict[str, Any]] | None:
        mine = threading.Event()
        with stream.lock:
            held.append(mine)
            # Let one of those that wait go on; the last to come is never kept.
            others = [event for event in held if event is not mine]
            (chance.choice(others) if others and chance.random() < 0.7 else mine).set()
        mine.wait(0.001)
        with stream.lock:
            held.remove(mine)
        return put(body)

    stream.put_records = slowly  # type: ignore[method-assign]
    send(stream.sender(), keys)
    order: dict[str, list[int]] = {}
    for key, number in stream.stored:
        order.setdefault(key, []).append(number)
    assert Counter(number for _, number in stream.stored) == Counter(range(len(keys)))
    assert all(numbers == sorted(numbers) for numbers in order.values())


def test_a_request_has_no_more_than_five_hundred_records() -> None:
    stream = Stream(0, 0.0)
    send(stream.sender(ordered=False), ["k"] * 1200)
    assert sorted(map(len, stream.requests)) == [200, MOST_RECORDS, MOST_RECORDS]


@pytest.mark.parametrize(
    ("sizes", "requests"),
    [
        ([MOST_BYTES // 2 - 1, MOST_BYTES // 2 - 1, 5], [2, 1]),
        ([MOST_BYTES // 2, MOST_BYTES // 2], [1, 1]),  # the keys count, too
        ([MOST_BYTES + 1, MOST_BYTES + 1], [1, 1]),
    ],
)
def test_a_request_has_no_more_than_five_mebibytes_unless_one_record_has(
    sizes: list[int], requests: list[int]
) -> None:
    counts: list[int] = []

    def put_records(body: bytes) -> None:
        counts.append(body.count(b"PartitionKey"))

    sender = Sender(
        put_records, "s", ordered=False, ttl_s=1, clock_s=lambda: 0.0, sleep=lambda _: None
    )
    send(sender, ["k", "l", "m"][: len(sizes)], [b"x" * size for size in sizes])
    assert sorted(counts, reverse=True) == requests


def test_requests_are_under_way_side_by_side() -> None:
    both = threading.Barrier(3)

    def put_records(body: bytes) -> None:
        both.wait(10)

    sender = Sender(
        put_records, "s", ordered=True, ttl_s=1, clock_s=lambda: 0.0, sleep=lambda _: None
    )
    send(sender, [f"k{n}" for n in range(3 * MOST_RECORDS)])
    assert sender.written.records == 3 * MOST_RECORDS


def test_what_is_under_way_is_over_when_the_sender_is_closed() -> None:
    ended: list[int] = []
    has_begun, may_end = threading.Event(), threading.Event()

    def put_records(body: bytes) -> None:
        if b'"k0"' in body:
            assert has_begun.wait(10)
            may_end.set()
            raise OSError("no route")
        has_begun.set()
        assert may_end.wait(10)
        ended.append(1)

    sender = Sender(
        put_records, "s", ordered=True, ttl_s=1, clock_s=lambda: 0.0, sleep=lambda _: None
    )
    with pytest.raises(OSError, match="no route"):
        send(sender, [f"k{n}" for n in range(2 * MOST_RECORDS)])
    assert ended == [1]


def test_a_record_that_is_always_refused_fails_the_write_after_its_time_to_live() -> None:
    stream = Stream(1, refuses=1.0)
    with pytest.raises(WriteFailed, match=r"for 3 s .*ProvisionedThroughputExceededException"):
        send(stream.sender(ttl_s=3), ["a"])
    assert 3 <= stream.now_s < 6


class HotShard(Stream):
    """Stores every record but those of one key, and these not before ten seconds are over."""

    def answers(self, entries: list[dict[str, str]]) -> list[dict[str, Any]] | None:
        answers: list[dict[str, Any]] = []
        for entry in entries:
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
    send(stream.sender(ttl_s=30), ["hot", *(f"k{n}" for n in range(1, 5000))])
    assert sorted(number for _, number in stream.stored) == list(range(5000))
    assert stream.stored[-1] == ("hot", 0)
    assert max(stream.stored_s[:-1]) < 1


def test_the_wait_doubles_up_to_two_seconds_and_is_short_again_after_a_success() -> None:
    stream = Stream(0, refuses=1.0)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(round(seconds, 9))
        stream.now_s += seconds
        if len(waits) == 9:
            stream.refuses = 0.0

    def sender() -> Sender:
        return Sender(
            stream.put_records, "s",
            ordered=True, ttl_s=1e9, clock_s=lambda: stream.now_s, sleep=sleep,
        )  # fmt: skip

    one = sender()
    one.add([b"1"], [b"a"], None)
    one.send()
    assert waits == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0]
    stream.refuses = 1.0
    waits[:] = [0.0] * 8
    one.add([b"1"], [b"a"], None)
    one.send()
    one.close()
    assert waits[8] == 0.05


def test_a_key_counts_by_its_bytes_and_a_hash_key_goes_with_the_record() -> None:
    stream = Stream(0, 0.0)
    sender = stream.sender()
    send(sender, ["é", 'a"\\', "k"], [b"123", b"1", b"2"], [None, "7", None])
    assert sender.written.bytes == 5 + 4 + 2
    assert stream.requests == [
        [
            {"Data": "MTIz", "PartitionKey": "é"},
            {"Data": "MQ==", "PartitionKey": 'a"\\', "ExplicitHashKey": "7"},
            {"Data": "Mg==", "PartitionKey": "k"},
        ]
    ]


def test_one_key_in_two_shards_is_two_lanes() -> None:
    stream = Stream(0, 0.0)
    send(stream.sender(), ["k", "k", "k"], None, ["0", "1", None])
    assert len(stream.requests) == 1


def test_a_key_that_is_no_text_is_refused() -> None:
    sender = Stream(0, 0.0).sender()
    with pytest.raises(InvalidKey, match="not UTF-8"):
        sender.add([b"1"], [b"\xff"], None)
    sender.close()


@pytest.mark.parametrize("data", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
@pytest.mark.parametrize("key", [pa.string(), pa.large_string()])
def test_columns_of_every_layout_give_their_values(data: Any, key: Any) -> None:
    values, keys = [b"0", b"", b"22", "é".encode()], [b"a", b"b", "é".encode(), b"d"]
    texts = [value.decode() for value in values]
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array(texts).cast(data),
            pa.array([k.decode() for k in keys]).cast(key),
            pa.array(["1", "", None, "2"]),
        ],
        ["data", "partitionKey", "explicitHashKey"],
    )
    assert _columns(batch) == (values, keys, ["1", None, None, "2"])
    assert _columns(batch.slice(1, 2)) == (values[1:3], keys[1:3], [None, None])
    assert _columns(batch.select(["data", "partitionKey"]).slice(4)) == ([], [], None)
