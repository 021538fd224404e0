"""What `put` takes and gives back, by its quick way and by its slow one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.client.aggregation import disaggregate
from headrace.client.producer import Producer
from headrace.client.receipts import Receipt
from tests.support.fake_stream import FakeStream

KEYS = ["a", "key-1", "key-2", "another", "schlüssel", "鍵", "k" * 256, None]
ROWS = st.lists(st.tuples(st.integers(0, 400), st.sampled_from(KEYS)), min_size=1, max_size=120)
OPTIONS = st.sampled_from(
    [
        {"aggregate": True, "aggregate_bytes": 2000},
        {"aggregate": True, "aggregate_records": 7},
        {"aggregate": True, "ordered": True, "aggregate_bytes": 700},
        {"ordered": True},
        {"max_records": 5},
        {"max_bytes": 3000},
    ]
)  # fmt: skip


def producer_of(stream: FakeStream, **options: Any) -> Producer:
    settings_ = {"linger_ms": 60_000.0, "connections": 1, "seed": 1, **options}
    return Producer("s", streams=stream, make_wire=lambda: stream, **settings_)  # type: ignore[arg-type]


def put_all(
    rows: list[tuple[bytes, str | None]], options: dict[str, Any], *, quickly: bool
) -> tuple[dict[str, list[Any]], list[Receipt]]:
    """Put rows; return what is in each shard, as entries with their user records, and the receipts."""
    stream = FakeStream(3)
    with producer_of(stream, **options) as producer:
        if quickly:
            receipts = [producer.put(data, key) for data, key in rows]
        else:
            receipts = [producer._put(data, key, None) for data, key in rows]
    entries = {
        shard_id: [disaggregate(row["Data"]) or (row["Data"], row["PartitionKey"]) for row in all_]
        for shard_id, all_ in stream.records.items()
    }
    return entries, receipts


def places(receipts: list[Receipt]) -> list[tuple[str, int]]:
    """Return the shard of each receipt, and its place among the shard's entries.

    Not its number: shards are sent to side by side, and all count with one counter.
    """
    numbers: dict[str, set[int]] = {}
    for receipt in receipts:
        numbers.setdefault(receipt.shard_id, set()).add(int(receipt.sequence_number))
    ordered = {shard_id: sorted(found) for shard_id, found in numbers.items()}
    return [
        (one.shard_id, ordered[one.shard_id].index(int(one.sequence_number))) for one in receipts
    ]


@settings(max_examples=30, deadline=None)
@given(rows=ROWS, options=OPTIONS)
def test_the_quick_way_of_put_does_what_the_slow_one_does(
    rows: list[tuple[int, str | None]], options: dict[str, Any]
):
    records = [(b"%06d" % i + b"x" * size, key) for i, (size, key) in enumerate(rows)]
    quick, receipts = put_all(records, options, quickly=True)
    slow, slow_receipts = put_all(records, options, quickly=False)
    assert quick == slow
    assert [(receipt.data, receipt.key) for receipt in receipts] == records
    assert places(receipts) == places(slow_receipts)


@pytest.mark.parametrize("options", [{}, {"aggregate": True}])
def test_text_is_put_as_utf_8_and_what_has_a_buffer_as_its_bytes(options: dict[str, Any]):
    stream = FakeStream()
    with producer_of(stream, **options) as producer:
        changed = bytearray(b"first")
        receipts = [producer.put("täxt", "k"), producer.put(changed, "k"), producer.put(memoryview(b"m"))]  # type: ignore[arg-type]  # fmt: skip
        changed[:] = b"later"
        receipts += producer.put_many([("ü", "k"), (b"plain", "k")])
    assert [receipt.data for receipt in receipts] == [
        "täxt".encode(), b"first", b"m", "ü".encode(), b"plain",
    ]  # fmt: skip
    assert producer.metrics().acknowledged == 5


@pytest.mark.parametrize("options", [{}, {"aggregate": True}])
@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"data": 5}, TypeError, "a record's data is bytes or text, not int"),
        ({"data": None}, TypeError, "a record's data is bytes or text, not NoneType"),
        ({"data": "\ud800"}, ValueError, "a record's text is Unicode text"),
        ({"data": b"", "key": 5}, TypeError, "a partition key is text, not int"),
        ({"data": b"", "key": b"k"}, TypeError, "a partition key is text, not bytes"),
        ({"data": b"", "key": ["k"]}, TypeError, "a partition key is text, not list"),
        ({"data": b"", "key": ""}, ValueError, "a partition key has 1 to 256 characters, not 0"),
        ({"data": b"", "key": "k" * 257}, ValueError, "1 to 256 characters, not 257"),
        ({"data": b"", "key": "k", "explicit_hash_key": "x"}, ValueError, r"2\*\*128 - 1, not x"),
        ({"data": b"", "key": "k", "explicit_hash_key": -1}, ValueError, r"2\*\*128 - 1, not -1"),
    ],
)  # fmt: skip
def test_what_no_stream_takes_is_refused_in_a_sentence(
    options: dict[str, Any], arguments: dict[str, Any], kind: type[Exception], sentence: str
):
    stream = FakeStream()
    with producer_of(stream, **options) as producer:
        producer.put(b"opens a chunk", "k")
        with pytest.raises(kind, match=sentence):
            producer.put(**arguments)
        if "explicit_hash_key" not in arguments:
            row: Any = (arguments["data"], arguments.get("key", "k"))
            with pytest.raises(kind, match=sentence):
                producer.put_many([(b"good", "k"), row])
    assert producer.metrics().acknowledged == 1


def test_a_callback_gets_the_receipt_that_put_has_returned():
    stream = FakeStream()
    stream.faults = [[None, "ProvisionedThroughputExceededException"]]
    heard: list[Receipt] = []
    with producer_of(stream, linger_ms=1.0) as producer:
        receipts = [producer.put(b"%d" % i, "k", on_done=heard.append) for i in range(2)]
        receipts[1].add_done_callback(heard.append)
    # The second one was refused first, and has moved.
    assert [id(receipt) for receipt in heard] == [id(receipts[i]) for i in (0, 1, 1)]


def test_receipts_of_one_record_are_equal():
    stream = FakeStream()
    with producer_of(stream) as producer:
        receipts = producer.put_many([(b"a", "k"), (b"b", "k")])
        assert receipts[0] == receipts[0]
        assert len({receipts[0], receipts[0], receipts[1]}) == 2
        assert receipts[0] != receipts[1]
        assert receipts[0] != 5
